// Package issues asks the service issue about the issues that sessions work on, and listens to its notices of changes.
package issues

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/session-manager/internal/operators/core/workspaces"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// Client is a [sessions.Issues] and a [runs.Issues].
type Client struct {
	client issuev1.IssueServiceClient
	tools  issuev1.IssueToolServiceClient
}

var (
	_ sessions.Issues = (*Client)(nil)
	_ runs.Issues     = (*Client)(nil)
	_ workspaces.Told = (*Client)(nil)
)

// New returns a client that asks over conn.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{issuev1.NewIssueServiceClient(conn), issuev1.NewIssueToolServiceClient(conn)}
}

// Check implements [sessions.Issues].
func (c *Client) Check(ctx context.Context, project string, number int64) error {
	_, err := c.client.GetIssue(ctx, &apiv1.GetIssueRequest{ProjectId: project, Number: number})
	return err
}

// Assigned implements [workspaces.Told].
func (c *Client) Assigned(ctx context.Context, a workspaces.Assignment) error {
	_, err := c.tools.AssignWorkspace(ctx, &issuev1.AssignWorkspaceRequest{
		Workspace: a.Name, Operator: a.Operator, Assignment: a.Number,
	})
	return err
}

// OpenTodos implements [runs.Issues].
func (c *Client) OpenTodos(ctx context.Context, owner, project string, number int64) (contract.OpenTodos, error) {
	resp, err := c.tools.RemindTodos(ident.WithCaller(ctx, ident.Caller{UserID: owner}),
		&issuev1.RemindTodosRequest{ProjectId: project, Number: number})
	out := contract.OpenTodos{Open: int(resp.GetOpen())}
	for _, t := range resp.GetTodos() {
		out.Shown = append(out.Shown, contract.OpenTodo{
			Content: t.GetContent(), Working: t.GetStatus() == "in_progress", Criterion: t.GetKind() == "criterion",
		})
	}
	return out, err
}

// changed is the subject of notices, kaged.issue.v1.IssueChanged each.
const changed = "issues.changed"

// Listen calls show with each changed issue that the service tells of on conn: its operator, and what sessions show.
// It fails with unavailable.
func Listen(
	ctx context.Context, conn *bus.Conn, log *slog.Logger, show func(owner string, p frames.IssueChanged),
) error {
	return conn.Listen(ctx, changed, func(data []byte) {
		var m issuev1.IssueChanged
		if err := proto.Unmarshal(data, &m); err != nil {
			log.Warn("a notice of an issue cannot be read", "error", err)
			return
		}
		show(m.GetOwnerUserId(), frames.IssueChanged{
			ProjectID: m.GetProjectId(), Number: m.GetNumber(), Created: m.GetCreated(),
		})
	})
}

// Package issues is the client of the service issue: it looks up the issues of sessions and listens to notices of
// changed issues.
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

// Client implements [sessions.Issues], [runs.Issues] and [workspaces.Told].
type Client struct {
	client issuev1.IssueServiceClient
	tools  issuev1.IssueToolServiceClient
}

var (
	_ sessions.Issues = (*Client)(nil)
	_ runs.Issues     = (*Client)(nil)
	_ workspaces.Told = (*Client)(nil)
)

// New returns a client that uses conn.
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

// changed is the NATS subject of notices, each a kaged.issue.v1.IssueChanged.
const changed = "issues.changed"

// Listen calls show for each notice of a changed issue on conn, with the issue's operator and the frame for the
// operator's sessions. It fails with unavailable.
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

// Package issues asks the service issue about the issues that sessions work on.
package issues

import (
	"context"

	"google.golang.org/grpc"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// Client is a [sessions.Issues].
type Client struct {
	client issuev1.IssueServiceClient
}

var _ sessions.Issues = (*Client)(nil)

// New returns a client that asks over conn.
func New(conn grpc.ClientConnInterface) *Client { return &Client{issuev1.NewIssueServiceClient(conn)} }

// Check implements [sessions.Issues].
func (c *Client) Check(ctx context.Context, project string, number int64) error {
	_, err := c.client.GetIssue(ctx, &apiv1.GetIssueRequest{ProjectId: project, Number: number})
	return err
}

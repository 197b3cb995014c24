// Package edits writes audit records of operators' edits of issues. Edits by agents are recorded as tool calls.
package edits

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	issuev1 "kaged.dev/proto/gen/kaged/issue/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// updated is the event type of the records.
const updated = "kaged.issue.updated"

// Conn is a connection to the service issue that records each edit of an issue.
type Conn struct {
	grpc.ClientConnInterface
	audit access.Audit
}

// New returns a Conn over base.
func New(base grpc.ClientConnInterface, audit access.Audit) *Conn { return &Conn{base, audit} }

// Invoke makes a call. A committed edit is recorded in the audit log. If ctx ends while the log's queue is full,
// the call fails though the edit is committed.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...); err != nil {
		return err
	}
	resp, ok := reply.(*apiv1.UpdateIssueResponse)
	if !ok || method != issuev1.IssueService_UpdateIssue_FullMethodName || len(resp.GetIssue().GetUpdatedFields()) == 0 {
		return nil
	}
	i, caller := resp.GetIssue(), ident.CallerFrom(ctx)
	return c.audit.Record(ctx, access.Entry{
		Type: updated, UserID: caller.UserID, RequestID: caller.RequestID, Payload: map[string]any{
			"issue_id": i.GetId(), "project_id": i.GetProjectId(), "number": i.GetNumber(), "caller": caller.UserID,
			"updated_fields": i.GetUpdatedFields(),
		},
	})
}

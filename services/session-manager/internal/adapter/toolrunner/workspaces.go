// Package toolrunner asks the tool-runners of workspaces: it reads projects' files, says what runs for sessions,
// and tells that a session has ended.
package toolrunner

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Workspaces implements [projects.Workspace] and [sessions.Tools]. It keeps nothing between calls and may be used
// concurrently.
type Workspaces struct {
	dial  func(workspace string) (grpc.ClientConnInterface, error)
	check Check
}

// Check fails unless a workspace is the operator's.
type Check func(ctx context.Context, operator, workspace string) error

// New returns the workspaces that dial reaches, which keeps its connections; the empty name is that of the default one.
// Each call for an operator passes check first.
func New(dial func(workspace string) (grpc.ClientConnInterface, error), check Check) *Workspaces {
	return &Workspaces{dial, check}
}

// open returns the tool-runner of a workspace. It fails with unavailable for a name without one, and with not_found
// for a workspace of another operator than the caller. Calls without a caller are the service's own.
func (w *Workspaces) open(ctx context.Context, workspace string) (toolrunnerv1.ToolRunnerServiceClient, error) {
	if caller := ident.CallerFrom(ctx).UserID; caller != "" {
		if err := w.check(ctx, caller, workspace); err != nil {
			return nil, err
		}
	}
	conn, err := w.dial(workspace)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The workspace %q cannot be reached; check its address.", workspace).
			With("subsystem", "tool-runner")
	}
	return toolrunnerv1.NewToolRunnerServiceClient(conn), nil
}

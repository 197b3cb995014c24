// Package toolrunner is the client of the workspaces' tool-runners: it reads and writes projects' files, lists and
// controls the commands of sessions, and ends sessions.
package toolrunner

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Workspaces implements [projects.Workspace], [sessions.Tools] and other interfaces of a workspace. It has no state
// between calls and is safe for concurrent use.
type Workspaces struct {
	dial  func(workspace string) (grpc.ClientConnInterface, error)
	check Check
}

// Check fails if a workspace is not the operator's.
type Check func(ctx context.Context, operator, workspace string) error

// New returns the workspaces that dial connects to; dial keeps its connections, and the default workspace has the
// empty name. Each call on behalf of an operator first calls check.
func New(dial func(workspace string) (grpc.ClientConnInterface, error), check Check) *Workspaces {
	return &Workspaces{dial, check}
}

// open returns the tool-runner of a workspace. It fails with unavailable if dial fails, and with not_found for a
// workspace of another operator than the caller. Calls without a caller are the service's own.
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

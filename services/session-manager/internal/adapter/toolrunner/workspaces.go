// Package toolrunner asks the tool-runners of workspaces: it reads projects' files, says what runs for sessions,
// and tells that a session has ended.
package toolrunner

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Workspaces implements [projects.Workspace] and [sessions.Tools]. It keeps nothing between calls and may be used
// concurrently.
type Workspaces struct {
	dial func(workspace string) (grpc.ClientConnInterface, error)
}

// New returns the workspaces that dial reaches, which keeps its connections. The name of a workspace is the address
// of its tool-runner; the empty name is that of the default one.
func New(dial func(workspace string) (grpc.ClientConnInterface, error)) *Workspaces {
	return &Workspaces{dial}
}

// open returns the tool-runner of a workspace. It fails with unavailable for a name without one.
func (w *Workspaces) open(workspace string) (toolrunnerv1.ToolRunnerServiceClient, error) {
	conn, err := w.dial(workspace)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The workspace %q cannot be reached; check its address.", workspace).
			With("subsystem", "tool-runner")
	}
	return toolrunnerv1.NewToolRunnerServiceClient(conn), nil
}

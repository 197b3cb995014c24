// Package workspace reads projects' files where they are, through the tool-runner of their workspace.
package workspace

import (
	"context"

	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/core/projects"
)

// Workspace implements projects.Workspace. It keeps nothing between calls and may be used concurrently.
type Workspace struct {
	toolRunner toolrunnerv1.ToolRunnerServiceClient
}

// New returns a Workspace that calls the tool-runner over conn. There is one workspace so far, whatever it is called.
func New(conn grpc.ClientConnInterface) *Workspace {
	return &Workspace{toolrunnerv1.NewToolRunnerServiceClient(conn)}
}

// ReadProject implements projects.Workspace.
func (w *Workspace) ReadProject(ctx context.Context, _, root string, paths []string, known map[string]string) (projects.Folder, error) {
	wanted := make(map[string]string, len(paths))
	for _, p := range paths {
		if hash := known[p]; hash != "" {
			wanted[p] = hash
		}
	}
	resp, err := w.toolRunner.ReadProject(ctx, &toolrunnerv1.ReadProjectRequest{Root: root, Paths: paths, Known: wanted})
	if err != nil {
		return projects.Folder{}, err
	}
	folder := projects.Folder{Root: resp.GetRoot(), Files: make([]projects.File, len(resp.GetFiles()))}
	for i, f := range resp.GetFiles() {
		folder.Files[i] = projects.File{
			Path: f.GetPath(), State: state(f.GetState()), Content: f.GetContent(), SHA256: f.GetSha256(), Reason: f.GetReason(),
		}
	}
	return folder, nil
}

func state(s toolrunnerv1.FileState) projects.FileState {
	switch s {
	case toolrunnerv1.FileState_FILE_STATE_FOUND:
		return projects.Found
	case toolrunnerv1.FileState_FILE_STATE_UNCHANGED:
		return projects.Unchanged
	case toolrunnerv1.FileState_FILE_STATE_MISSING:
		return projects.Missing
	}
	// A state of a newer tool-runner says at least that there is no content here.
	return projects.Refused
}

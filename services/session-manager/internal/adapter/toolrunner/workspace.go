package toolrunner

import (
	"context"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/pkg/fault"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// ReadProject implements [projects.Workspace].
func (w *Workspaces) ReadProject(
	ctx context.Context, workspace, root string, paths []string, known map[string]string,
) (projects.Folder, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return projects.Folder{}, err
	}
	wanted := make(map[string]string, len(paths))
	for _, p := range paths {
		if hash := known[p]; hash != "" {
			wanted[p] = hash
		}
	}
	resp, err := client.ReadProject(ctx, &toolrunnerv1.ReadProjectRequest{Root: root, Paths: paths, Known: wanted})
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

// WriteProject implements [projects.Workspace].
func (w *Workspaces) WriteProject(
	ctx context.Context, workspace, root, path string, content []byte, was string,
) (string, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return "", err
	}
	resp, err := client.WriteProject(ctx, &toolrunnerv1.WriteProjectRequest{
		Root: root, Path: path, Content: content, WasSha256: was,
	})
	return resp.GetSha256(), err
}

// Catalogue implements [projects.Workspace].
func (w *Workspaces) Catalogue(ctx context.Context, workspace string) (catalogue.Tools, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	resp, err := client.ListTools(ctx, &toolrunnerv1.ListToolsRequest{})
	if err != nil {
		return nil, fault.From(err).With("subsystem", "tool-runner")
	}
	return toolwire.FromTools(resp.GetTools())
}

// LanguageServers implements [projects.Workspace].
func (w *Workspaces) LanguageServers(
	ctx context.Context, workspace, project, root string,
) ([]contract.RunningLanguageServer, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	resp, err := client.ListLanguageServers(ctx, &toolrunnerv1.ListLanguageServersRequest{ProjectId: project, Root: root})
	return contract.LanguageServersFromProto(resp.GetServers()), err
}

// StopLanguageServers implements [projects.Workspace].
func (w *Workspaces) StopLanguageServers(
	ctx context.Context, workspace, project, root, lang string,
) ([]contract.RunningLanguageServer, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	resp, err := client.StopLanguageServers(ctx, &toolrunnerv1.StopLanguageServersRequest{
		ProjectId: project, Root: root, Lang: lang,
	})
	return contract.LanguageServersFromProto(resp.GetServers()), err
}

// UnloadProject implements [unregister.Workspace].
func (w *Workspaces) UnloadProject(ctx context.Context, workspace, project, root string) ([]contract.Record, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	resp, err := client.StopLanguageServers(ctx, &toolrunnerv1.StopLanguageServersRequest{
		ProjectId: project, Root: root, Unload: true,
	})
	return contract.RecordsFromProto(resp.GetRecords()), err
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
	// an unknown state of a newer tool-runner has no content either
	return projects.Refused
}

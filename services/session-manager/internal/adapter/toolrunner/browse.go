package toolrunner

import (
	"context"
	"errors"
	"io"

	"kaged.dev/pkg/contract"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// ListFolder implements [projects.Workspace].
func (w *Workspaces) ListFolder(
	ctx context.Context, workspace, root, path, after string, limit int,
) ([]projects.Entry, bool, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return nil, false, err
	}
	resp, err := client.ListFolder(ctx, &toolrunnerv1.ListFolderRequest{
		Root: root, Path: path, After: after, Limit: int32(limit),
	})
	var list []projects.Entry
	for _, e := range resp.GetEntries() {
		list = append(
			list, projects.Entry{
				Name: e.GetName(), Kind: e.GetKind(), Size: e.GetSize(), ModifiedAt: e.GetModifiedAt(),
			},
		)
	}
	return list, resp.GetMore(), err
}

// Empty implements [admin.Volume].
func (w *Workspaces) Empty(ctx context.Context, workspace, root string) (bool, error) {
	list, more, err := w.ListFolder(ctx, workspace, root, "", "", 1)
	return len(list) == 0 && !more, err
}

// ReadFile implements [projects.Workspace].
func (w *Workspaces) ReadFile(
	ctx context.Context, workspace, root, path string, take func(size, modifiedAt int64, data []byte) error,
) error {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.ReadFile(ctx, &toolrunnerv1.ReadFileRequest{Root: root, Path: path})
	if err != nil {
		return err
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = take(chunk.GetSize(), chunk.GetModifiedAt(), chunk.GetData())
		}
		if err != nil {
			return err
		}
	}
}

// Changes implements [sessions.Tools].
func (w *Workspaces) Changes(ctx context.Context, workspace string, q sessions.ChangesQuery) (sessions.Changes, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return sessions.Changes{}, err
	}
	resp, err := client.ListChanges(ctx, &toolrunnerv1.ListChangesRequest{
		Root: q.Root, SessionId: q.Session, Since: q.Since, Path: q.Path,
	})
	out := sessions.Changes{Truncated: resp.GetTruncated(), Head: resp.GetHead()}
	for _, f := range resp.GetFiles() {
		out.Files = append(out.Files, sessions.FileChange{
			Path: f.GetPath(), Kind: f.GetKind(), Origin: f.GetOrigin(), Agents: f.GetAgents(), Added: f.GetAdded(),
			Removed: f.GetRemoved(), Diff: f.GetDiff(), Truncated: f.GetTruncated(), NoDiff: f.GetNoDiff(),
		})
	}
	return out, err
}

// Examine implements [doctor.Workspace].
func (w *Workspaces) Examine(ctx context.Context, workspace string) (contract.Machine, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return contract.Machine{}, err
	}
	resp, err := client.Examine(ctx, &toolrunnerv1.ExamineRequest{})
	return contract.MachineFromProto(resp.GetCages(), resp.GetLanguageServers(), resp.GetChecks()), err
}

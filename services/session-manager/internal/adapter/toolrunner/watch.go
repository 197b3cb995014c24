package toolrunner

import (
	"context"

	"kaged.dev/pkg/contract"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// Watch implements [sessions.Tools].
func (w *Workspaces) Watch(ctx context.Context, workspace string, to sessions.Watcher) error {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.WatchWorkspace(ctx)
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		switch event.GetState() {
		case toolrunnerv1.WorkspaceState_WORKSPACE_STATE_SERVING:
			to.State(false)
		case toolrunnerv1.WorkspaceState_WORKSPACE_STATE_DRAINING:
			to.State(true)
		}
		if event.GetRecord() == nil {
			continue // of an unknown type
		}
		stored, err := to.Store(event.GetSessionId(), event.GetId(), contract.RecordFromProto(event.GetRecord()))
		if err != nil {
			return err
		}
		if !stored {
			continue
		}
		if err := stream.Send(&toolrunnerv1.WatchWorkspaceRequest{Acknowledged: event.GetId()}); err != nil {
			return err
		}
	}
}

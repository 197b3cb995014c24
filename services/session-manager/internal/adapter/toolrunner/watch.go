package toolrunner

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/late"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
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
	return late.Receive(func() (late.Record, error) {
		event, err := stream.Recv()
		switch event.GetState() {
		case toolrunnerv1.WorkspaceState_WORKSPACE_STATE_SERVING:
			to.State(false)
		case toolrunnerv1.WorkspaceState_WORKSPACE_STATE_DRAINING:
			to.State(true)
		}
		if event.GetRecord() == nil {
			return late.Record{}, err
		}
		return late.Record{
			ID: event.GetId(), Session: event.GetSessionId(), Run: event.GetRunId(), Project: event.GetProjectId(),
			Record: contract.RecordFromProto(event.GetRecord()),
		}, err
	}, to.Store, func(id string) error { return stream.Send(&toolrunnerv1.WatchWorkspaceRequest{Acknowledged: id}) })
}

package toolrunner

import (
	"context"

	"kaged.dev/pkg/contract"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Watch implements [sessions.Tools].
func (w *Workspaces) Watch(
	ctx context.Context, workspace string, store func(session, id string, r contract.Record) (stored bool, err error),
) error {
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
		if event.GetRecord() == nil {
			continue // of an unknown type
		}
		stored, err := store(event.GetSessionId(), event.GetId(), contract.RecordFromProto(event.GetRecord()))
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

package sessions

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
)

// WatchWorkspaces stores the audit records that workspaces produce between tool calls, until ctx ends. Every
// process watches; a record that several of them receive is stored once. Records of sessions in another workspace
// are dropped. The runs of a workspace that drains are handed over.
func (s *Service) WatchWorkspaces(ctx context.Context) {
	var all sync.WaitGroup
	for _, name := range s.Config.Workspaces {
		all.Go(func() { s.watch(ctx, name) })
	}
	all.Wait()
}

func (s *Service) watch(ctx context.Context, workspace string) {
	for range (retry.Pauses{First: 100 * time.Millisecond, Last: s.ToolsRetry, Spread: true}).Each(ctx) {
		err := s.Tools.Watch(ctx, workspace, Watcher{
			State: func(draining bool) { s.Live.SetDraining(workspace, draining) },
			Store: func(session, id string, r contract.Record) (bool, error) {
				stored, err := s.Store.LateRecord(ctx, workspace, session, id, r)
				if stored {
					late := audit.Of(r)
					late.ID, late.SessionID = id, session
					s.Recorded(late)
				}
				return stored, err
			},
		})
		if ctx.Err() == nil {
			s.Log.Debug("watching a workspace ended; retrying", "workspace", workspace, "error", err)
		}
	}
}

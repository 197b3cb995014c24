package sessions

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/late"
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
			Store: func(r late.Record) (bool, error) {
				stored, err := s.Store.LateRecord(ctx, workspace, r)
				if stored {
					a := audit.Of(r.Record)
					a.ID, a.SessionID = r.ID, r.Session
					s.Recorded(a)
				}
				return stored, err
			},
		})
		if ctx.Err() == nil {
			s.Log.Debug("watching a workspace ended; retrying", "workspace", workspace, "error", err)
		}
	}
}

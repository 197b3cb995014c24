package sessions

import (
	"context"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/retry"
)

// WatchWorkspaces stores the default workspace's records between calls, until ctx ends. Each process does: a record
// that several of them are given is stored once.
func (s *Service) WatchWorkspaces(ctx context.Context) {
	for range (retry.Pauses{First: 100 * time.Millisecond, Last: s.ToolsRetry, Spread: true}).Each(ctx) {
		err := s.Tools.Watch(ctx, "", func(session, id string, r contract.Record) (bool, error) {
			return s.Store.LateRecord(ctx, session, id, r)
		})
		if ctx.Err() == nil {
			s.Log.Debug("the workspace is watched no more; trying again", "error", err)
		}
	}
}

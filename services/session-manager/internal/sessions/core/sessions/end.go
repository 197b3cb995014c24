package sessions

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Bounds of ending.
const (
	// endTries bounds the attempts to end a session in which a new run begins meanwhile.
	endTries = 5
	// enders is the number of sessions of a project that are ended at once.
	enders = 4
)

// errBusy says that a run began after the last one was stopped.
var errBusy = errors.New("a run has begun")

// End ends a session: its run is cancelled, its socket is told, and its commands in the workspace are killed. It
// fails with bad_request (details.reason confirm_required) without confirm, with not_found and with gone.
func (s *Service) End(ctx context.Context, id string, confirm bool) (record.Session, error) {
	if !confirm {
		return record.Session{}, notConfirmed()
	}
	l, release, err := s.acquire(ctx, id)
	if err != nil {
		return record.Session{}, err
	}
	defer release()
	if err := s.end(ctx, l); err != nil {
		return record.Session{}, err
	}
	ended := l.Record()
	published, cancel := context.WithTimeout(ctx, s.Farewell)
	defer cancel()
	_ = l.Flush(published) // a socket that misses the frame learns of the end from its hold
	l.Release(live.Ended{Code: live.SessionEnded, Reason: "The session was ended."})
	if err := s.endTools(ctx, record.Untold{Session: ended.ID, Workspace: ended.Workspace}); err != nil {
		s.Log.WarnContext(ctx, "the commands of an ended session were not killed; retrying", "session", ended.ID,
			"error", err)
	}
	return ended, nil
}

// end stops the run and stores the end of the session.
func (s *Service) end(ctx context.Context, l *live.Session) error {
	for range endTries {
		if run := l.RunAtWork(ctx); run != nil {
			if err := s.stop(ctx, l, run, "The session was ended."); err != nil {
				return err
			}
		}
		err := l.Update(ctx, crash.SessionEndStored, func(current record.Session) (record.Change, error) {
			if current.State == record.Running {
				return record.Change{}, errBusy
			}
			next, err := current.State.On(record.Closed)
			if err != nil {
				return record.Change{}, err
			}
			c := record.Change{At: now(), Session: record.Patch{State: next}}
			if current.State == record.Queued {
				if err := s.dropPending(ctx, &c, current); err != nil {
					return c, err
				}
			}
			c.Audit = append(c.Audit, notResumed(ctx, current, "The session was ended first.")...)
			c.Audit = append(c.Audit, about(ctx, current, "session.ended", nil))
			d, err := frames.RenderDurable(s.Renderer, current.ID+".ended", frames.SessionState{State: string(next)})
			c.Outbox = append(c.Outbox, d)
			return c, err
		}, nil)
		if !errors.Is(err, errBusy) {
			return err
		}
	}
	return fault.New(fault.Conflict, "New runs keep starting in this session; try again.").
		With("current_state", string(record.Running))
}

// endTools kills the commands of an ended session in its workspace. If that fails, [Service.TellWorkspaces]
// retries.
func (s *Service) endTools(ctx context.Context, of record.Untold) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.ToolsTimeout)
	defer cancel()
	ended, err := s.Tools.EndSession(bounded, of.Workspace, of.Session)
	if err != nil {
		return err
	}
	return s.Store.ToolsEnded(bounded, of.Session, ended)
}

// TellWorkspaces tells workspaces about ended sessions until ctx ends, if the process that ended the session died
// or could not reach the workspace. Several processes may tell the same workspace, which is harmless.
func (s *Service) TellWorkspaces(ctx context.Context) {
	ticker := time.NewTicker(s.ToolsRetry)
	defer ticker.Stop()
	for {
		if err := s.endUntold(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("workspaces could not be told of ended sessions; retrying", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// untoldBatch bounds the ended sessions in one query.
const untoldBatch = 100

// endUntold tells workspaces about sessions that ended more than ToolsTimeout ago, so that the ending process has
// had its chance. It skips unreachable workspaces until the next call, so that they delay no other.
func (s *Service) endUntold(ctx context.Context) (err error) {
	var away []string
	for {
		missed := len(away)
		list, failed := s.Store.ToolsToEnd(ctx, now()-s.ToolsTimeout.Milliseconds(), away, untoldBatch)
		err = cmp.Or(err, failed)
		for _, of := range list {
			if ctx.Err() != nil {
				return nil
			}
			if slices.Contains(away, of.Workspace) {
				continue
			}
			told := s.endTools(ctx, of)
			err = cmp.Or(err, told)
			if errors.Is(told, fault.Unavailable) || errors.Is(told, fault.DeadlineExceeded) {
				away = append(away, of.Workspace)
			}
		}
		if len(away) == missed || len(list) < untoldBatch {
			return err
		}
	}
}

// EndProjectSessions ends every session of a project that has not ended, whichever process holds it, and returns
// their number.
func (s *Service) EndProjectSessions(ctx context.Context, owner, project string) (int, error) {
	ids, err := s.Store.Open(ctx, owner, project)
	if err != nil {
		return 0, err
	}
	var work sync.WaitGroup
	var ended atomic.Int64
	errs := make([]error, len(ids))
	slots := make(chan struct{}, enders)
	for i, id := range ids {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			switch err := s.endAnywhere(ctx, id); {
			case err == nil:
				ended.Add(1)
			case !errors.Is(err, fault.Gone):
				errs[i] = err
			}
		})
	}
	work.Wait()
	return int(ended.Load()), errors.Join(errs...)
}

func (s *Service) endAnywhere(ctx context.Context, id string) error {
	_, err := s.End(ctx, id, true)
	if errors.Is(err, fault.StaleLease) {
		if holder, _ := fault.From(err).Details["holder"].(string); holder != "" {
			return s.Peers.EndSession(ctx, holder, id)
		}
	}
	return err
}

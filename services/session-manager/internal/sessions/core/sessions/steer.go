package sessions

import (
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// maxSteers bounds the messages that wait for a run's next step boundary, maxSteerBytes their total size.
const (
	maxSteers     = 16
	maxSteerBytes = 1 << 20
)

// errNoRun says that the session has no run to steer.
var errNoRun = errors.New("the session has no run")

// steer stores a message for the pending or active run. An active run receives it at its next step boundary, a
// pending one together with its first message. taken is false if the session has no run. It fails with conflict
// (details.reason steer_limit) if too many messages wait.
func (p *posting) steer(l *live.Session) (posted Posted, taken bool, err error) {
	err = l.Update(p.ctx, crash.SteerStored, func(current record.Session) (record.Change, error) {
		c := record.Change{At: now()}
		posted = Posted{
			MessageID: p.message, SessionID: current.ID, RunID: current.CurrentRun, AcceptedAt: c.At, Steered: true,
		}
		how := runs.SteerQueued
		switch {
		case current.CurrentRun == "":
			return c, errNoRun
		case current.State == record.Queued:
			posted, err := p.s.Store.PostedTo(p.ctx, current.ID, current.CurrentRun)
			if err != nil {
				return c, err
			}
			if len(posted) > maxSteers {
				return c, steerLimit(len(posted) - 1)
			}
			how = runs.SteerNext
			c.Messages = []record.Message{{
				ID: p.message, SessionID: current.ID, Role: record.Operator, Content: *p.in.Content, RunID: current.CurrentRun,
				CreatedAt: c.At,
			}}
		case current.State == record.Running:
			if err := hasRoom(current.Steers, *p.in.Content); err != nil {
				return c, err
			}
			c.Steer = &record.Steer{ID: p.message, Content: *p.in.Content, CreatedAt: c.At}
		default:
			return c, errNoRun
		}
		r := about(p.ctx, current, "message.steered", map[string]any{
			"message_id": p.message, "bytes": len(*p.in.Content), "state": how,
		})
		r.RunID = current.CurrentRun
		c.Audit = []audit.Record{r}
		d, err := frames.RenderDurable(p.s.Renderer, p.message+"."+how, frames.MessageSteer{
			MessageID: p.message, RunID: current.CurrentRun, State: how, Content: *p.in.Content, At: c.At,
		})
		c.Outbox = []frames.Durable{d}
		return c, err
	}, nil)
	if errors.Is(err, errNoRun) {
		return Posted{}, false, nil
	}
	return posted, err == nil, err
}

// hasRoom fails if one more message would exceed the bounds of waiting messages.
func hasRoom(waiting []record.Steer, content string) error {
	bytes := len(content)
	for _, w := range waiting {
		bytes += len(w.Content)
	}
	if len(waiting) < maxSteers && (bytes <= maxSteerBytes || len(waiting) == 0) {
		return nil
	}
	return steerLimit(len(waiting))
}

func steerLimit(waiting int) error {
	return fault.New(fault.Conflict, "%d messages already wait for the run; wait until it has received them.", waiting).
		With("reason", "steer_limit").With("waiting", waiting).With("limit", maxSteers).With("limit_bytes", maxSteerBytes)
}

// follows are sessions with a run that waits because an earlier run completed.
type follows struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex // guards waiting
	waiting []record.Session
}

// Followed takes a committed change of a session. If it completed a run and queued the next one,
// [Service.FollowRuns] begins that. It never waits.
func (s *Service) Followed(before, after record.Session) {
	if before.State != record.Running || after.State != record.Queued {
		return
	}
	s.follows.mu.Lock()
	s.follows.waiting = append(s.follows.waiting, after)
	s.follows.mu.Unlock()
	select {
	case s.follows.wake <- struct{}{}:
	default:
	}
}

// followPatience bounds the retries to begin a run while a service that it needs is unavailable. After that the run
// stays queued.
const followPatience = time.Minute

var followPauses = retry.Pauses{First: 50 * time.Millisecond, Last: 2 * time.Second}

// FollowRuns begins runs that follow completed ones until ctx ends, and returns when the last attempt has ended.
func (s *Service) FollowRuns(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case <-s.follows.wake:
		case <-ctx.Done():
			return
		}
		s.follows.mu.Lock()
		list := s.follows.waiting
		s.follows.waiting = nil
		s.follows.mu.Unlock()
		for _, of := range list {
			work.Go(func() { s.followRun(ctx, of) })
		}
	}
}

// followRun begins the pending run of a session. If no slot is free, the run stays queued like any other.
func (s *Service) followRun(ctx context.Context, of record.Session) {
	ctx, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	ctx = ident.WithCaller(ctx, ident.Caller{UserID: of.Owner, RequestID: ident.New()})
	var err error
	for range followPauses.Each(ctx) {
		if _, err = s.Resume(ctx, of.ID); !errors.Is(err, fault.Unavailable) {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		s.Log.Info("a message that arrived too late to steer its run stays queued", "session", of.ID, "run", of.CurrentRun,
			"error", err)
	}
}

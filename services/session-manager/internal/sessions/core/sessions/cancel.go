package sessions

import (
	"context"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// Cancel stops a run and returns the ended run. It fails with not_found, with conflict (details.current_state) if
// the run is over already, and with unavailable if it does not end in time.
func (s *Service) Cancel(ctx context.Context, session, run string) (RunDetail, error) {
	detail, err := s.Run(ctx, session, run)
	if err != nil {
		return RunDetail{}, err
	}
	if detail.State.Over() {
		return RunDetail{}, nothingToCancel(detail.Run)
	}
	l, release, err := s.acquire(ctx, session)
	if err != nil {
		return RunDetail{}, err
	}
	defer release()
	if detail.State == record.RunPending {
		if _, err := s.discard(ctx, l); err != nil {
			return RunDetail{}, err
		}
		return s.detail(ctx, session, run)
	}
	current := l.RunAtWork(ctx)
	if current == nil || current.ID() != run {
		// It ended in between: by itself, or because loading the session ended a run without a holder.
		if detail, err = s.detail(ctx, session, run); err == nil {
			err = nothingToCancel(detail.Run)
		}
		return RunDetail{}, err
	}
	if err := s.stop(ctx, l, current, "The operator cancelled the run."); err != nil {
		return RunDetail{}, err
	}
	return s.detail(ctx, session, run)
}

// stop cancels a run and waits for its end. The cancellation is stored meanwhile, so that if this process dies
// first, the next holder does not resume the run. It fails with unavailable if the run does not end in time.
func (s *Service) stop(ctx context.Context, l *live.Session, run *runs.Run, reason string) error {
	run.Cancel(reason) // even if storing the cancellation fails
	bounded, cancel := context.WithTimeout(ctx, s.StopTimeout)
	defer cancel()
	if err := l.Update(bounded, crash.CancelStored, func(current record.Session) (record.Change, error) {
		c := record.Change{At: now(), CancelRequested: run.ID()}
		r := about(ctx, current, "run.cancel_requested", nil)
		r.RunID = run.ID()
		c.Audit = append(c.Audit, r)
		return c, nil
	}, nil); err != nil {
		s.Log.WarnContext(ctx, "a cancellation was not recorded", "run", run.ID(), "error", err)
	}
	select {
	case <-run.Done():
		return nil
	case <-bounded.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.New(fault.Unavailable, "The run was told to stop and has not ended yet; try again shortly.").
		With("subsystem", "harness")
}

func nothingToCancel(run record.Run) error {
	return fault.New(fault.Conflict, "There is nothing to cancel: the run is %s.", run.State).
		With("current_state", string(run.State))
}

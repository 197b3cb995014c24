package sessions

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/record"
)

// Cancel stops a run and returns it as it ended. It fails with not_found, with conflict (details.current_state) if the run
// is over already, and with unavailable if it does not end in time.
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
	current := l.CurrentRun()
	if current == nil || current.ID() != run {
		// It ended in between, or nobody carried it out and it ended when the session became live.
		if detail, err = s.detail(ctx, session, run); err == nil {
			err = nothingToCancel(detail.Run)
		}
		return RunDetail{}, err
	}
	current.Cancel(cancelled) // whatever becomes of the record of it
	if err := l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		c := record.Change{At: now(), CancelRequested: run}
		r := about(ctx, current, "run.cancel_requested", nil)
		r.RunID = run
		c.Audit = append(c.Audit, r)
		return c, nil
	}, nil); err != nil {
		s.Log.WarnContext(ctx, "a cancellation was not recorded", "run", run, "error", err)
	}
	if err := s.stop(ctx, l, cancelled); err != nil {
		return RunDetail{}, err
	}
	return s.detail(ctx, session, run)
}

const cancelled = "The operator cancelled the run."

func nothingToCancel(run record.Run) error {
	return fault.New(fault.Conflict, "There is nothing to cancel: the run is %s.", run.State).With("current_state", string(run.State))
}

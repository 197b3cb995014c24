package sessions

import (
	"context"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// InvocationDetail is an invocation with its steps.
type InvocationDetail struct {
	record.Invocation
	Steps []transcript.Step
}

// Invocations returns a page of a session's invocations, oldest first; a non-empty run filters them. It fails with
// not_found for the session or the run, and with validation_failed.
func (s *Service) Invocations(ctx context.Context, session, run string, limit int32,
	cursor string,
) (page.Page[record.Invocation], error) {
	none := page.Page[record.Invocation]{}
	req, err := page.Parse("invocations", limit, cursor)
	if err != nil {
		return none, err
	}
	if _, err := s.find(ctx, session); err != nil {
		return none, err
	}
	if run != "" {
		if !check.Findable(run) {
			return none, record.RunNotFound(run)
		}
		if _, err := s.Store.Run(ctx, session, run); err != nil {
			return none, err
		}
	}
	rows, err := s.Store.Invocations(ctx, session, run, req.After, req.Fetch())
	return page.Cut(req, rows, func(i record.Invocation) page.Key { return page.Key{N: i.StartedAt, S: i.ID} }), err
}

// Invocation returns one invocation with its steps. It fails with not_found.
func (s *Service) Invocation(ctx context.Context, session, id string) (InvocationDetail, error) {
	if _, err := s.find(ctx, session); err != nil {
		return InvocationDetail{}, err
	}
	return s.invocation(ctx, session, id)
}

func (s *Service) invocation(ctx context.Context, session, id string) (InvocationDetail, error) {
	if !check.Findable(id) {
		return InvocationDetail{}, record.InvocationNotFound(id)
	}
	i, err := s.Store.Invocation(ctx, session, id)
	if err != nil {
		return InvocationDetail{}, err
	}
	steps, err := s.Store.ShownSteps(ctx, i.RunID, id)
	return InvocationDetail{i, steps}, err
}

// LiveAgents returns the active agents below the root in the caller's session, oldest first.
func (s *Service) LiveAgents(ctx context.Context, session string) ([]record.Invocation, error) {
	return s.Store.LiveInvocations(ctx, ident.CallerFrom(ctx).UserID, session)
}

// CancelInvocation stops an agent below the root and those below it, and returns the ended invocation; its caller
// continues. It fails with not_found, with conflict (details.current_state) if the agent has ended already, and
// with unavailable if it does not end in time.
func (s *Service) CancelInvocation(ctx context.Context, session, id string) (InvocationDetail, error) {
	detail, err := s.Invocation(ctx, session, id)
	if err != nil {
		return InvocationDetail{}, err
	}
	if detail.State.Over() {
		return InvocationDetail{}, invocationOver(detail)
	}
	l, release, err := s.acquire(ctx, session)
	if err != nil {
		return InvocationDetail{}, err
	}
	defer release()
	var over <-chan struct{}
	if run := l.RunAtWork(ctx); run != nil && run.ID() == detail.RunID {
		over = run.CancelInvocation(id, "The operator cancelled the agent.")
	}
	if over == nil {
		// It ended in between: by itself, or with its run when the session was loaded.
		if _, err := l.Settled(ctx); err != nil {
			return InvocationDetail{}, err
		}
		if detail, err = s.invocation(ctx, session, id); err == nil {
			err = invocationOver(detail)
		}
		return InvocationDetail{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.StopTimeout)
	defer cancel()
	if err := l.Update(bounded, "", func(current record.Session) (record.Change, error) {
		r := about(ctx, current, "delegation.cancel_requested", map[string]any{"invocation_id": id})
		r.RunID, r.AgentPath = detail.RunID, detail.AgentPath
		return record.Change{At: now(), Audit: []audit.Record{r}}, nil
	}, nil); err != nil {
		s.Log.WarnContext(ctx, "a cancellation was not recorded", "invocation", id, "error", err)
	}
	select {
	case <-over:
		return s.invocation(ctx, session, id)
	case <-bounded.Done():
	}
	if ctx.Err() != nil {
		return InvocationDetail{}, ctx.Err()
	}
	return InvocationDetail{}, fault.New(fault.Unavailable,
		"The agent was told to stop and has not ended yet; try again shortly.").
		With("subsystem", "harness")
}

func invocationOver(i InvocationDetail) error {
	return fault.New(fault.Conflict, "There is nothing to cancel: the agent is %s.", i.State).With("current_state",
		string(i.State))
}

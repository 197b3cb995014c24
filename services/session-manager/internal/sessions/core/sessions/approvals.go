package sessions

import (
	"context"
	"errors"
	"slices"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// maxComment bounds the comment of an answer, in characters.
const maxComment = 2000

// Approvals returns a page of a session's approvals, newest first; a non-empty state filters them. It fails with
// not_found and validation_failed.
func (s *Service) Approvals(
	ctx context.Context, session, state string, limit int32, cursor string,
) (page.Page[record.Approval], error) {
	req, err := parseApprovals("approvals", state, limit, cursor)
	if err != nil {
		return page.Page[record.Approval]{}, err
	}
	if _, err := s.find(ctx, session); err != nil {
		return page.Page[record.Approval]{}, err
	}
	rows, err := s.Store.Approvals(ctx, session, record.ApprovalState(state), req.After, req.Fetch())
	return cutApprovals(req, rows), err
}

// AllApprovals is [Service.Approvals] for all sessions of the caller. It fails with validation_failed.
func (s *Service) AllApprovals(
	ctx context.Context, state string, limit int32, cursor string,
) (page.Page[record.Approval], error) {
	req, err := parseApprovals("all_approvals", state, limit, cursor)
	if err != nil {
		return page.Page[record.Approval]{}, err
	}
	owner := ident.CallerFrom(ctx).UserID
	rows, err := s.Store.ApprovalsOf(ctx, owner, record.ApprovalState(state), req.After, req.Fetch())
	return cutApprovals(req, rows), err
}

func parseApprovals(list, state string, limit int32, cursor string) (page.Request, error) {
	if state != "" && !slices.Contains(record.ApprovalStates, record.ApprovalState(state)) {
		return page.Request{}, check.Field("state", "state must be one of %v.", record.ApprovalStates)
	}
	return page.Parse(list, limit, cursor)
}

func cutApprovals(req page.Request, rows []record.Approval) page.Page[record.Approval] {
	return page.Cut(req, rows, func(a record.Approval) page.Key { return page.Key{N: a.RequestedAt, S: a.ID} })
}

// Approval returns one approval. It fails with not_found.
func (s *Service) Approval(ctx context.Context, session, id string) (record.Approval, error) {
	if _, err := s.find(ctx, session); err != nil {
		return record.Approval{}, err
	}
	return s.approval(ctx, session, id)
}

func (s *Service) approval(ctx context.Context, session, id string) (record.Approval, error) {
	if !check.Findable(id) {
		return record.Approval{}, record.ApprovalNotFound(id)
	}
	return s.Store.Approval(ctx, session, id)
}

// decisions are the possible answers of an operator.
var decisions = map[string]record.ApprovalState{"approve": record.ApprovalApproved, "deny": record.ApprovalDenied}

// Answer approves or denies a pending tool call; the answer is stored when it returns. It fails with
// validation_failed, not_found, gone for an ended session, conflict (details.current_state) for an approval that is
// no longer pending, and for a standing approval as [Service.standing] does.
func (s *Service) Answer(ctx context.Context, session, id string, in Answer) (record.Approval, error) {
	state, err := in.check()
	if err != nil {
		return record.Approval{}, err
	}
	l, release, err := s.acquire(ctx, session)
	if err != nil {
		return record.Approval{}, err
	}
	defer release()
	a, err := s.approval(ctx, session, id)
	if err != nil {
		return record.Approval{}, err
	}
	if a.State != record.ApprovalPending {
		return record.Approval{}, record.ApprovalOver(a.State)
	}
	how := record.Resolution{State: state, By: ident.CallerFrom(ctx).UserID, Comment: in.Comment}
	if how.Standing, err = s.standing(ctx, l.Record(), a, in); err != nil {
		return record.Approval{}, err
	}
	if run := l.RunAtWork(ctx); run != nil && run.ID() == a.RunID {
		answered, err := run.Answer(id, how)
		if err == nil || !errors.Is(err, fault.Conflict) {
			return answered, err
		}
	}
	// Another answer came first, or the run is ending: find out which, once that is stored.
	if _, err := l.Settled(ctx); err != nil {
		return record.Approval{}, err
	}
	if a, err = s.approval(ctx, session, id); err != nil {
		return record.Approval{}, err
	}
	run := l.RunAtWork(ctx)
	leaves := (run == nil || run.Handed()) && l.Record().CurrentRun == a.RunID
	if a.State == record.ApprovalPending && leaves {
		return record.Approval{}, fault.New(fault.Unavailable, "The run is being handed over; answer again shortly.").
			With("subsystem", "session-manager")
	}
	if a.State == record.ApprovalPending {
		a.State = record.ApprovalClosed
	}
	return record.Approval{}, record.ApprovalOver(a.State)
}

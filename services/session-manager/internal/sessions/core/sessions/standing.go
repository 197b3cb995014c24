package sessions

import (
	"context"
	"slices"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Answer is an operator's answer to an approval.
type Answer struct {
	// Decision is approve or deny. Comment is a text for the agent.
	Decision, Comment string
	// Scope is once, session or project, "" for once.
	Scope string
	// Kind is the kind of the standing approval, "" for the first kind that the request offers. Words is the number of
	// first words of the command that must match, 0 for the fewest.
	Kind  string
	Words int
	// Hash is the digest of the subject that the operator saw; it may be "".
	Hash string
}

// lasts reports whether the answer creates a standing approval.
func (in Answer) lasts() bool { return in.Scope != "" && in.Scope != record.ScopeOnce }

// check returns the approval's state after the answer. It fails with validation_failed.
func (in Answer) check() (record.ApprovalState, error) {
	state, ok := decisions[in.Decision]
	switch {
	case !ok:
		return "", check.Field("decision", "decision must be approve or deny.")
	case in.lasts() && in.Scope != record.ScopeSession && in.Scope != record.ScopeProject:
		return "", check.Field("scope", "scope must be once, session or project.")
	case in.lasts() && state != record.ApprovalApproved:
		return "", check.Field("scope", "Only an approval can have a scope; leave scope out.")
	case in.lasts() && in.Hash == "":
		return "", check.Field("hash", "hash must be the request's hash; it proves that the approved call is the shown one.")
	case !in.lasts() && (in.Kind != "" || in.Words != 0):
		return "", check.Field("kind", "kind and words are for a scope of session or project.")
	}
	return state, check.Text("comment", in.Comment, maxComment)
}

// standing returns the standing approval that an answer creates, or nil. It fails with validation_failed if the
// request does not offer it, and with conflict if the operator saw another subject (details.reason stale_hash) or
// the project has too many (standing_limit).
func (s *Service) standing(
	ctx context.Context, of record.Session, a record.Approval, in Answer,
) (*record.Standing, error) {
	if in.Hash != "" && in.Hash != a.Hash() {
		return nil, fault.New(fault.Conflict, "The hash is not that of this request; read the request again.").
			With("reason", "stale_hash").With("hash", a.Hash())
	}
	if !in.lasts() {
		return nil, nil
	}
	offers := a.Offers()
	at := 0
	if in.Kind != "" {
		at = slices.IndexFunc(offers, func(o record.Standing) bool { return o.Kind == contract.StandingKind(in.Kind) })
	}
	if at < 0 || at >= len(offers) {
		return nil, check.Field("kind", "This request does not offer that standing approval; see its offers.")
	}
	made := offers[at]
	if in.Words != 0 {
		if made.Kind != contract.SameWords || in.Words < made.Words || in.Words > len(a.Subject.Words) {
			return nil, check.Field("words", "words must be from 2 to the number of words of the command, for kind words.")
		}
		made.Words = in.Words
	}
	n, err := s.Store.StandingCount(ctx, of.Owner, of.ProjectID)
	if err == nil && n >= record.MaxStanding {
		err = record.StandingLimit()
	}
	if err != nil {
		return nil, err
	}
	made.ID, made.ApprovalID, made.CreatedAt, made.CreatedBy = ident.New(), a.ID, now(), ident.CallerFrom(ctx).UserID
	made.Owner, made.ProjectID, made.ProjectPath = of.Owner, of.ProjectID, of.ProjectPath
	if in.Scope == record.ScopeSession {
		made.SessionID = of.ID
	}
	return &made, nil
}

// StandingApprovals returns a page of the caller's standing approvals, newest first. A non-empty project or session
// filters them; revoked ones are included only with revoked. It fails with validation_failed.
func (s *Service) StandingApprovals(
	ctx context.Context, project, session string, revoked bool, limit int32, cursor string,
) (page.Page[record.Standing], error) {
	req, err := page.Parse("standing_approvals", limit, cursor)
	if err != nil {
		return page.Page[record.Standing]{}, err
	}
	rows, err := s.Store.StandingOf(ctx, ident.CallerFrom(ctx).UserID, project, session, revoked, req.After, req.Fetch())
	return page.Cut(req, rows, func(a record.Standing) page.Key { return page.Key{N: a.CreatedAt, S: a.ID} }), err
}

// RevokeStanding revokes a standing approval of the caller. It fails with not_found.
func (s *Service) RevokeStanding(ctx context.Context, id string) (record.Standing, error) {
	if !check.Findable(id) {
		return record.Standing{}, record.StandingNotFound(id)
	}
	caller := ident.CallerFrom(ctx).UserID
	return s.Store.RevokeStanding(ctx, caller, id, caller, now(), func(of record.Standing) audit.Record {
		r := audit.New(ctx, "approval.standing_revoked", map[string]any{
			"standing_approval_id": of.ID, "scope": of.Scope(), "kind": string(of.Kind), "covers": of.Sentence(),
			"used": of.Used,
		})
		r.ProjectID, r.SessionID, r.AgentPath = of.ProjectID, of.SessionID, of.Subject.Agent
		return r.Clean()
	})
}

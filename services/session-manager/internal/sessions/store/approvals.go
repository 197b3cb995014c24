package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// Approval implements [sessions.Store].
func (s *Sessions) Approval(ctx context.Context, session, id string) (record.Approval, error) {
	row, err := db.New(s.db).GetApproval(ctx, session, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.Approval{}, record.ApprovalNotFound(id)
	}
	if err != nil {
		return record.Approval{}, database.Fail(err, "get approval")
	}
	return approvalFromRow(row), nil
}

// Approvals implements [sessions.Store].
func (s *Sessions) Approvals(
	ctx context.Context, session string, state record.ApprovalState, after *page.Key, limit int32,
) ([]record.Approval, error) {
	p := db.ListApprovalsParams{SessionID: session, State: string(state), BeforeAt: math.MaxInt64, RowLimit: limit}
	if after != nil {
		p.BeforeAt, p.BeforeID = after.N, after.S
	}
	rows, err := db.New(s.db).ListApprovals(ctx, p)
	if err != nil {
		return nil, database.Fail(err, "list approvals")
	}
	list := make([]record.Approval, len(rows))
	for i, row := range rows {
		list[i] = approvalFromRow(db.GetApprovalRow(row))
	}
	return list, nil
}

// ApprovalsOf implements [sessions.Store].
func (s *Sessions) ApprovalsOf(
	ctx context.Context, owner string, state record.ApprovalState, after *page.Key, limit int32,
) (list []record.Approval, err error) {
	at := page.Key{N: math.MaxInt64}
	if after != nil {
		at = *after
	}
	q := db.New(s.db)
	if state == record.ApprovalPending { // with an index of its own: few approvals are pending
		rows, err := q.WaitingApprovals(ctx, owner, at.N, at.S, limit)
		for _, row := range rows {
			list = append(list, approvalFromRow(db.GetApprovalRow(row)))
		}
		return list, database.Fail(err, "list waiting approvals")
	}
	rows, err := q.ApprovalsOfOwner(ctx, db.ApprovalsOfOwnerParams{
		Owner: owner, State: string(state), BeforeAt: at.N, BeforeID: at.S, RowLimit: limit,
	})
	for _, row := range rows {
		list = append(list, approvalFromRow(db.GetApprovalRow(row)))
	}
	return list, database.Fail(err, "list approvals of all sessions")
}

// pending returns the pending approvals of a run, oldest first.
func (s *Sessions) pending(ctx context.Context, run string) ([]record.Approval, error) {
	rows, err := db.New(s.db).PendingApprovals(ctx, run)
	var list []record.Approval
	for _, row := range rows {
		list = append(list, approvalFromRow(db.GetApprovalRow(row)))
	}
	return list, err
}

// approvalFromRow returns a stored approval. If its subject cannot be read, the subject has a reason that says so.
func approvalFromRow(row db.GetApprovalRow) record.Approval {
	a := record.Approval{
		ID: row.ID, SessionID: row.SessionID, RunID: row.RunID, CallID: row.ToolCallID,
		State:       record.ApprovalState(row.State),
		RequestedAt: row.RequestedAt, ExpiresAt: row.ExpiresAt, ResolvedAt: row.ResolvedAt, ResolvedBy: row.ResolvedBy,
		Comment:      row.Comment,
		InvocationID: row.InvocationID, StandingID: row.StandingID,
	}
	if err := json.Unmarshal(row.Subject, &a.Subject); err != nil {
		a.Subject = contract.Subject{Reasons: []string{database.Unreadable("What this request is about")}}
	}
	return a
}

// queueApprovals adds a change's statements about approvals to q.
func queueApprovals(ctx context.Context, q *db.Queries, c record.Change) error {
	for _, a := range c.Approvals {
		subject, err := json.Marshal(storableSubject(a.Subject))
		if err != nil {
			return err
		}
		if err := q.InsertApproval(ctx, db.InsertApprovalParams{
			ID: a.ID, SessionID: a.SessionID, RunID: a.RunID, ToolCallID: check.Storable(a.CallID),
			Subject:     string(subject),
			RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt, InvocationID: a.InvocationID,
		}); err != nil {
			return err
		}
	}
	answered := c.Closed
	if c.Answered != nil {
		answered = append(answered[:len(answered):len(answered)], *c.Answered)
	}
	for _, a := range answered {
		if err := q.ResolveApproval(ctx, db.ResolveApprovalParams{
			ID: a.ID, State: string(a.State), At: c.At, ResolvedBy: a.ResolvedBy, Comment: check.Storable(a.Comment),
			StandingID: a.StandingID,
		}); err != nil {
			return err
		}
	}
	if err := queueStanding(ctx, q, c); err != nil {
		return err
	}
	if c.EndRun != nil {
		return q.CloseApprovals(ctx, c.At, c.EndRun.RunID)
	}
	return nil
}

func storableSubject(s contract.Subject) contract.Subject {
	list := func(texts []string) []string {
		out := make([]string, len(texts))
		for i, t := range texts {
			out[i] = check.Storable(t)
		}
		return out
	}
	return contract.Subject{
		Tool: check.Storable(s.Tool), Agent: check.Storable(s.Agent), Reasons: list(s.Reasons),
		Command: check.Storable(s.Command), Cwd: check.Storable(s.Cwd), Paths: list(s.Paths),
		Preview:  check.Storable(s.Preview),
		Standing: s.Standing, Words: list(s.Words), Cage: s.Cage, Network: list(s.Network),
	}
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	auditstore "kaged.dev/services/session-manager/internal/audit/store"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// InForce implements [runs.Standing].
func (s *Sessions) InForce(ctx context.Context, of record.Session, agent, tool string) ([]record.Standing, error) {
	rows, err := db.New(s.db).StandingInForce(ctx, db.StandingInForceParams{
		Owner: of.Owner, ProjectID: of.ProjectID, ProjectPath: of.ProjectPath, SessionID: of.ID, AgentPath: agent, Tool: tool,
	})
	if err != nil {
		return nil, database.Fail(err, "look up standing approvals")
	}
	list := make([]record.Standing, 0, len(rows))
	for _, row := range rows {
		if one, ok := standingFromRow(db.GetStandingRow(row)); ok {
			list = append(list, one)
		}
	}
	return list, nil
}

// StandingCount implements [sessions.Store].
func (s *Sessions) StandingCount(ctx context.Context, owner, project string) (int, error) {
	n, err := db.New(s.db).CountStanding(ctx, owner, project)
	return int(n), database.Fail(err, "count standing approvals")
}

// StandingOf implements [sessions.Store].
func (s *Sessions) StandingOf(
	ctx context.Context, owner, project, session string, revoked bool, after *page.Key, limit int32,
) ([]record.Standing, error) {
	p := db.ListStandingParams{
		Owner: owner, ProjectID: project, SessionID: session, Revoked: revoked, BeforeAt: math.MaxInt64, RowLimit: limit,
	}
	if after != nil {
		p.BeforeAt, p.BeforeID = after.N, after.S
	}
	rows, err := db.New(s.db).ListStanding(ctx, p)
	list := make([]record.Standing, len(rows))
	for i, row := range rows {
		list[i], _ = standingFromRow(db.GetStandingRow(row))
	}
	return list, database.Fail(err, "list standing approvals")
}

// RevokeStanding implements [sessions.Store].
func (s *Sessions) RevokeStanding(
	ctx context.Context, owner, id, by string, at int64, made func(record.Standing) audit.Record,
) (out record.Standing, err error) {
	err = database.InTx(ctx, s.db, func(tx database.DB) error {
		q := db.New(tx)
		row, err := q.GetStanding(ctx, owner, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return record.StandingNotFound(id)
		}
		if err != nil {
			return err
		}
		if out, _ = standingFromRow(row); out.RevokedAt > 0 {
			return nil
		}
		out.RevokedAt, out.RevokedBy = at, by
		if err := q.RevokeStanding(ctx, at, by, id); err != nil {
			return err
		}
		return auditstore.Append(ctx, tx, []audit.Record{made(out)})
	})
	return out, database.Fail(err, "revoke a standing approval")
}

// standingFromRow returns a stored standing approval, and false if its subject is unreadable; then it covers no
// call.
func standingFromRow(row db.GetStandingRow) (record.Standing, bool) {
	s := standing(row)
	if err := json.Unmarshal(row.Subject, &s.Subject); err != nil {
		s.Subject = contract.Subject{Reasons: []string{database.Unreadable("What this approval is about")}}
		return s, false
	}
	return s, true
}

//convert:one standing db.GetStandingRow record.Standing OwnerUserID=Owner >Subject=-

// queueStanding adds a change's statements about standing approvals to q.
func queueStanding(ctx context.Context, q *db.Queries, c record.Change) error {
	if s := c.Standing; s != nil {
		subject, err := json.Marshal(storableSubject(s.Subject))
		if err != nil {
			return err
		}
		if err := q.InsertStanding(ctx, db.InsertStandingParams{
			ID: s.ID, Owner: s.Owner, ProjectID: s.ProjectID, ProjectPath: s.ProjectPath, SessionID: s.SessionID,
			ApprovalID: s.ApprovalID,
			AgentPath:  s.Subject.Agent, Tool: s.Subject.Tool, Kind: string(s.Kind), Words: int32(s.Words),
			Subject:   string(subject),
			CreatedAt: s.CreatedAt, CreatedBy: s.CreatedBy,
		}); err != nil {
			return err
		}
	}
	if c.StandingUsed != "" {
		return q.NoteStandingUse(ctx, c.At, c.StandingUsed)
	}
	return nil
}

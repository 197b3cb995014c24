package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// listedChars bounds the prompt and the output of each invocation in a list.
const listedChars = 4 << 10

// Invocations implements [sessions.Store].
func (s *Sessions) Invocations(ctx context.Context, session, run string, after *page.Key,
	limit int32,
) ([]record.Invocation, error) {
	p := db.ListInvocationsParams{SessionID: session, RunID: run, Chars: listedChars, AfterAt: -1, RowLimit: limit}
	if after != nil {
		p.AfterAt, p.AfterID = after.N, after.S
	}
	rows, err := db.New(s.db).ListInvocations(ctx, p)
	list := make([]record.Invocation, len(rows))
	for i, row := range rows {
		list[i] = invocationFromRow(db.GetInvocationRow(row))
	}
	return list, database.Fail(err, "list invocations")
}

// Invocation implements [sessions.Store].
func (s *Sessions) Invocation(ctx context.Context, session, id string) (record.Invocation, error) {
	row, err := db.New(s.db).GetInvocation(ctx, session, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.Invocation{}, record.InvocationNotFound(id)
	}
	return invocationFromRow(row), database.Fail(err, "get invocation")
}

// InvocationsOf implements [sessions.Store].
func (s *Sessions) InvocationsOf(ctx context.Context, runs []string, limit int32) ([]record.Invocation, error) {
	rows, err := db.New(s.db).InvocationsOfRuns(ctx, runs, limit)
	list := make([]record.Invocation, len(rows))
	for i, row := range rows {
		list[i] = invocationFromRow(db.GetInvocationRow(row))
	}
	return list, database.Fail(err, "list the invocations of runs")
}

// LiveInvocations implements [sessions.Store].
func (s *Sessions) LiveInvocations(ctx context.Context, owner, session string) ([]record.Invocation, error) {
	rows, err := db.New(s.db).LiveInvocations(ctx, owner, session)
	list := make([]record.Invocation, len(rows))
	for i, row := range rows {
		list[i] = record.Invocation{
			ID: row.ID, SessionID: row.SessionID, RunID: row.RunID, ParentID: row.ParentID, Name: row.Name,
			AgentPath: row.AgentPath,
			State:     record.InvocationState(row.State), Cage: contract.CageStatus(row.CageStatus), StartedAt: row.StartedAt,
		}
	}
	return list, database.Fail(err, "list the active agents")
}

// Cut implements [live.Store].
func (s *Sessions) Cut(ctx context.Context, run string, calls []string) ([]record.Invocation, record.Below, error) {
	q := db.New(s.db)
	var below record.Below
	rows, err := q.CutInvocations(ctx, run, calls)
	if err != nil {
		return nil, below, database.Fail(err, "read invocations")
	}
	list := make([]record.Invocation, len(rows))
	for i, row := range rows {
		list[i] = invocationFromRow(db.GetInvocationRow(row))
		if !list[i].State.Over() {
			if list[i].Kept, err = s.Steps(ctx, run, row.ID); err != nil {
				return nil, below, err
			}
		}
	}
	sum, err := q.SumInvocations(ctx, run)
	below = record.Below{Totals: record.Totals{
		TokensIn: sum.TokensIn, TokensOut: sum.TokensOut,
		CostUSD: &sum.CostTotal,
	}, Unpriced: sum.Unpriced > 0}
	return list, below, database.Fail(err, "sum invocations up")
}

// invocationFromRow returns a stored invocation. Unreadable parts are omitted or replaced by a sentence, so that
// one row never hides the others.
func invocationFromRow(row db.GetInvocationRow) record.Invocation {
	i := record.Invocation{
		ID: row.ID, SessionID: row.SessionID, RunID: row.RunID, ParentID: row.ParentID, CallID: row.ToolCallID,
		Name:      row.Name,
		AgentPath: row.AgentPath, State: record.InvocationState(row.State), Cage: contract.CageStatus(row.CageStatus),
		Prompt: row.Input, Output: row.Output, Truncated: row.Truncated, Error: failure(row.Error,
			"The failure of this agent"),
		Steps: int(row.Steps),
		Totals: record.Totals{
			TokensIn: llm.AddCounts(row.TokensIn), TokensOut: llm.AddCounts(row.TokensOut),
			CostUSD: cost(row.CostTotal),
		},
		StartedAt: row.StartedAt, EndedAt: row.EndedAt,
	}
	if row.CagePolicy != "" {
		policy := new(dsl.Cage)
		if json.Unmarshal([]byte(row.CagePolicy), policy) == nil {
			i.Policy = policy
		}
	}
	if json.Unmarshal(row.Tools, &i.Tools) != nil {
		i.Tools = nil
	}
	if json.Unmarshal(row.FilesChanged, &i.FilesChanged) != nil {
		i.FilesChanged = nil
	}
	return i
}

// queueInvocations adds a change's statements about invocations to q.
func queueInvocations(ctx context.Context, q *db.Queries, c record.Change) error {
	for _, i := range c.Invocations {
		p := db.InsertInvocationParams{
			ID: i.ID, SessionID: i.SessionID, RunID: i.RunID, ParentID: i.ParentID, ToolCallID: check.Storable(i.CallID),
			Name: check.Storable(i.Name), AgentPath: check.Storable(i.AgentPath), CageStatus: string(i.Cage),
			Input: check.Storable(i.Prompt), StartedAt: i.StartedAt,
		}
		var err error
		if p.Tools, err = texts(i.Tools); err != nil {
			return err
		}
		if i.Policy != nil {
			policy, err := json.Marshal(i.Policy)
			if err != nil {
				return err
			}
			p.CagePolicy = text(policy)
		}
		if err := q.InsertInvocation(ctx, p); err != nil {
			return err
		}
	}
	for _, cage := range c.Cages {
		if err := q.SetInvocationCage(ctx, string(cage.Status), cage.ID); err != nil {
			return err
		}
	}
	for _, f := range c.Files {
		files, err := texts(f.Changed)
		if err != nil {
			return err
		}
		if err := q.SetInvocationFiles(ctx, files, f.ID); err != nil {
			return err
		}
	}
	for _, i := range c.Ended {
		files, err := texts(i.FilesChanged)
		if err != nil {
			return err
		}
		if err := q.EndInvocation(ctx, db.EndInvocationParams{
			ID: i.ID, State: string(i.State), Exit: int16(i.State.Exit()), Output: check.Storable(i.Output),
			Truncated: i.Truncated,
			Error:     keptError(i.Error), Steps: int32(i.Steps), TokensIn: i.Totals.TokensIn, TokensOut: i.Totals.TokensOut,
			CostTotal: i.Totals.CostUSD, FilesChanged: files, EndedAt: i.EndedAt,
		}); err != nil {
			return err
		}
	}
	return nil
}

// texts returns a list of texts as JSON, each made storable.
func texts(list []string) (string, error) {
	kept := make([]string, len(list))
	for i, t := range list {
		kept[i] = check.Storable(t)
	}
	b, err := json.Marshal(kept)
	return string(b), err
}

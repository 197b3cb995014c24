package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
	"kaged.dev/services/session-manager/internal/stored"
)

// Runs implements [sessions.Store].
func (s *Sessions) Runs(ctx context.Context, session string, after *page.Key, limit int32) ([]record.Run, error) {
	if after == nil {
		after = &page.Key{N: -1}
	}
	rows, err := db.New(s.db).ListRuns(ctx, session, after.N, after.S, limit)
	if err != nil {
		return nil, database.Fail(err, "list runs")
	}
	list := make([]record.Run, len(rows))
	for i, row := range rows {
		list[i] = runFromRow(db.GetRunRow(row))
	}
	return list, nil
}

// Run implements [sessions.Store].
func (s *Sessions) Run(ctx context.Context, session, run string) (record.Run, error) {
	row, err := db.New(s.db).GetRun(ctx, session, run)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.Run{}, record.RunNotFound(run)
	}
	if err != nil {
		return record.Run{}, database.Fail(err, "get run")
	}
	return runFromRow(row), nil
}

// runFromRow returns a stored run. An unreadable failure is replaced by a sentence, and invalid counts and costs
// are clipped, so that one row never hides the others.
func runFromRow(row db.GetRunRow) record.Run {
	r := record.Run{
		ID: row.ID, SessionID: row.SessionID, Owner: row.OwnerUserID, ProjectID: row.ProjectID,
		TriggerMessageID: row.TriggerMessageID, MessageID: row.MessageID, State: record.RunState(row.State),
		StopReason: llm.StopReason(row.StopReason), Steps: int(row.Steps), CompiledHash: row.CompiledHash,
		Totals: record.Totals{
			TokensIn: llm.AddCounts(row.TokensIn), TokensOut: llm.AddCounts(row.TokensOut), CostUSD: cost(row.CostTotal),
		},
		CreatedAt: row.CreatedAt, StartedAt: row.StartedAt, EndedAt: row.EndedAt,
		Cage: contract.CageStatus(row.CageStatus), CancelRequestedAt: row.CancelRequestedAt,
		ReleasedAt: row.ReleasedAt, Worked: time.Duration(row.WorkedMs) * time.Millisecond,
	}
	if err := json.Unmarshal(row.PromptHashes, &r.PromptHashes); err != nil {
		r.PromptHashes = nil
	}
	r.Error = failure(row.Error, "The failure of this run")
	return r
}

// failure returns the stored failure of a run or an agent, nil for "".
func failure(kept, of string) *fault.Error {
	if kept == "" {
		return nil
	}
	var f struct {
		Code, Message string
		Details       map[string]any
		HTTP          int
	}
	if err := json.Unmarshal([]byte(kept), &f); err != nil {
		return fault.New(fault.Internal, "%s", database.Unreadable(of))
	}
	code, ok := fault.ParseCode(f.Code)
	if !ok {
		code = fault.Internal
	}
	return &fault.Error{Code: code, Msg: f.Message, Details: f.Details, HTTP: f.HTTP}
}

// Steps implements [live.Store]. It fails for unreadable steps: a run is not repaired from an incomplete record.
func (s *Sessions) Steps(ctx context.Context, run, invocation string) ([]transcript.Step, error) {
	steps, bad, err := s.steps(ctx, run, invocation)
	return steps, database.Fail(errors.Join(err, bad), "read steps")
}

// ShownSteps implements [sessions.Store].
func (s *Sessions) ShownSteps(ctx context.Context, run, invocation string) ([]transcript.Step, error) {
	steps, _, err := s.steps(ctx, run, invocation)
	return steps, database.Fail(err, "read steps")
}

// steps returns the steps of an agent in a run and, as bad, the errors of unreadable ones.
func (s *Sessions) steps(ctx context.Context, run, invocation string) (steps []transcript.Step, bad, err error) {
	rows, err := db.New(s.db).ListSteps(ctx, run, invocation)
	for _, row := range rows {
		var unread error
		if steps, unread = addHalf(steps, row); unread != nil {
			bad = errors.Join(bad, fmt.Errorf("step %d of run %s: %w", row.Step, run, unread))
		}
	}
	return steps, bad, err
}

// addHalf adds a stored half of a step. An unreadable turn is replaced by a text that says so; unreadable results
// are omitted, so that their calls count as cut off. So one row never hides the others. The error names the
// unreadable part.
func addHalf(steps []transcript.Step, row db.ListStepsRow) ([]transcript.Step, error) {
	if row.Part == partTurn {
		step := transcript.Step{}
		turn, err := stored.FromTurn(row.Body)
		if err == nil {
			step.Turn = transcript.Turn{Turn: turn}
		} else {
			text := database.Unreadable(fmt.Sprintf("Step %d of this run", row.Step))
			step.Turn = transcript.Turn{Turn: contract.Turn{
				Stop: llm.StopError, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}},
			}}
		}
		step.Step, step.At = int(row.Step), row.CreatedAt
		return append(steps, step), err
	}
	n := len(steps)
	results, err := stored.FromResults(row.Body)
	if err != nil {
		return steps, err
	}
	if n == 0 || steps[n-1].Step != int(row.Step) {
		return steps, errors.New("results without a turn")
	}
	if row.Part == partPartial {
		if !steps[n-1].Done {
			steps[n-1].Results = results
		}
		return steps, nil
	}
	steps[n-1].Results, steps[n-1].Done = results, true
	return steps, nil
}

// Running implements [notices.Store]. The version is the database's time of the count, in microseconds.
func (s *Sessions) Running(ctx context.Context, owner string) (perProject map[string]int, version int64, err error) {
	rows, err := db.New(s.db).CountRunning(ctx, owner)
	if err != nil {
		return nil, 0, database.Fail(err, "count running sessions")
	}
	perProject = map[string]int{}
	for _, r := range rows {
		version = r.Version
		if r.Running > 0 {
			perProject[r.ProjectID] = int(r.Running)
		}
	}
	return perProject, version, nil
}

// PostedTo implements [sessions.Store].
func (s *Sessions) PostedTo(ctx context.Context, session, run string) ([]string, error) {
	ids, err := db.New(s.db).PostedTo(ctx, session, run)
	return ids, database.Fail(err, "find the messages of a run")
}

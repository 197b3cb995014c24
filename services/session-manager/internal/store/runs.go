package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/core/page"
	"kaged.dev/services/session-manager/internal/core/record"
	"kaged.dev/services/session-manager/internal/core/transcript"
	"kaged.dev/services/session-manager/internal/store/db"
	"kaged.dev/services/session-manager/internal/wire"
)

// Runs implements [sessions.Store].
func (s *Sessions) Runs(ctx context.Context, session string, after *page.Key, limit int32) ([]record.Run, error) {
	if after == nil {
		after = &page.Key{N: -1}
	}
	rows, err := db.New(s.pool).ListRuns(ctx, session, after.N, after.S, limit)
	if err != nil {
		return nil, fail(err, "list runs")
	}
	list := make([]record.Run, len(rows))
	for i, row := range rows {
		list[i] = runFromRow(db.GetRunRow(row))
	}
	return list, nil
}

// Run implements [sessions.Store].
func (s *Sessions) Run(ctx context.Context, session, run string) (record.Run, error) {
	row, err := db.New(s.pool).GetRun(ctx, session, run)
	if errors.Is(err, pgx.ErrNoRows) {
		return record.Run{}, record.RunNotFound(run)
	}
	if err != nil {
		return record.Run{}, fail(err, "get run")
	}
	return runFromRow(row), nil
}

// runFromRow returns a stored run. A failure that cannot be read becomes one that says so, and a count or cost that cannot be is
// clipped: one row never hides the others.
func runFromRow(row db.GetRunRow) record.Run {
	r := record.Run{
		ID: row.ID, SessionID: row.SessionID, Owner: row.OwnerUserID, ProjectID: row.ProjectID,
		TriggerMessageID: row.TriggerMessageID, MessageID: row.MessageID, State: record.RunState(row.State),
		StopReason: llm.StopReason(row.StopReason), Steps: int(row.Steps), CompiledHash: row.CompiledHash,
		Totals:    record.Totals{TokensIn: llm.AddCounts(row.TokensIn), TokensOut: llm.AddCounts(row.TokensOut), CostUSD: cost(row.CostTotal)},
		CreatedAt: row.CreatedAt, StartedAt: row.StartedAt, EndedAt: row.EndedAt,
		Cage: record.CageStatus(row.CageStatus), CancelRequestedAt: row.CancelRequestedAt,
	}
	if err := json.Unmarshal(row.PromptHashes, &r.PromptHashes); err != nil {
		r.PromptHashes = nil
	}
	if row.Error == "" {
		return r
	}
	var kept struct {
		Code, Message string
		Details       map[string]any
		HTTP          int
	}
	if err := json.Unmarshal([]byte(row.Error), &kept); err != nil {
		r.Error = fault.New(fault.Internal, "%s", unreadableText("The failure of this run"))
		return r
	}
	code, ok := fault.ParseCode(kept.Code)
	if !ok {
		code = fault.Internal
	}
	r.Error = &fault.Error{Code: code, Msg: kept.Message, Details: kept.Details, HTTP: kept.HTTP}
	return r
}

// Steps implements [live.Store]. It fails for steps that cannot be read: a run is not put in order from half of what it did.
func (s *Sessions) Steps(ctx context.Context, run string) ([]transcript.Step, error) {
	steps, bad, err := s.steps(ctx, run)
	return steps, fail(errors.Join(err, bad), "read steps")
}

// ShownSteps implements [sessions.Store].
func (s *Sessions) ShownSteps(ctx context.Context, run string) ([]transcript.Step, error) {
	steps, _, err := s.steps(ctx, run)
	return steps, fail(err, "read steps")
}

// steps returns the steps of a run and, as bad, what of them cannot be read.
func (s *Sessions) steps(ctx context.Context, run string) (steps []transcript.Step, bad, err error) {
	rows, err := db.New(s.pool).ListSteps(ctx, run)
	for _, row := range rows {
		var unread error
		if steps, unread = addHalf(steps, row); unread != nil {
			bad = errors.Join(bad, fmt.Errorf("step %d of run %s: %w", row.Step, run, unread))
		}
	}
	return steps, bad, err
}

// addHalf adds a stored half of a step. A turn that cannot be read becomes a text that says so, and results that cannot be read are
// left out, so that their calls count as cut off: one row never hides the others. The error says what cannot be read.
func addHalf(steps []transcript.Step, row db.ListStepsRow) ([]transcript.Step, error) {
	if row.Part == partTurn {
		var turn harnessv1.Turn
		step := transcript.Step{}
		err := proto.Unmarshal(row.Body, &turn)
		if err == nil {
			step.Turn = wire.FromTurn(&turn)
		} else {
			text := unreadableText(fmt.Sprintf("Step %d of this run", row.Step))
			step.Turn = transcript.Turn{Stop: llm.StopError, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}}
		}
		step.Step, step.At = int(row.Step), row.CreatedAt
		return append(steps, step), err
	}
	n := len(steps)
	var results harnessv1.Message
	if err := proto.Unmarshal(row.Body, &results); err != nil {
		return steps, err
	}
	if n == 0 || steps[n-1].Step != int(row.Step) {
		return steps, errors.New("results without a turn")
	}
	steps[n-1].Results, steps[n-1].Done = wire.FromResults(&results), true
	return steps, nil
}

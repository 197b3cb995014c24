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
		if list[i], err = runFromRow(db.GetRunRow(row)); err != nil {
			return nil, fail(err, "list runs")
		}
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
	r, err := runFromRow(row)
	return r, fail(err, "get run")
}

func runFromRow(row db.GetRunRow) (record.Run, error) {
	r := record.Run{
		ID: row.ID, SessionID: row.SessionID, Owner: row.OwnerUserID, ProjectID: row.ProjectID,
		TriggerMessageID: row.TriggerMessageID, MessageID: row.MessageID, State: record.RunState(row.State),
		StopReason: llm.StopReason(row.StopReason), Steps: int(row.Steps), CompiledHash: row.CompiledHash,
		Totals:    record.Totals{TokensIn: row.TokensIn, TokensOut: row.TokensOut, CostUSD: row.CostTotal},
		CreatedAt: row.CreatedAt, StartedAt: row.StartedAt, EndedAt: row.EndedAt,
		Cage: record.CageStatus(row.CageStatus), CancelRequestedAt: row.CancelRequestedAt,
	}
	if err := json.Unmarshal(row.PromptHashes, &r.PromptHashes); err != nil {
		return r, err
	}
	if row.Error == "" {
		return r, nil
	}
	var kept struct {
		Code, Message string
		Details       map[string]any
		HTTP          int
	}
	if err := json.Unmarshal([]byte(row.Error), &kept); err != nil {
		return r, err
	}
	code, ok := fault.ParseCode(kept.Code)
	if !ok {
		code = fault.Internal
	}
	r.Error = &fault.Error{Code: code, Msg: kept.Message, Details: kept.Details, HTTP: kept.HTTP}
	return r, nil
}

// Steps implements [sessions.Store] and [live.Store].
func (s *Sessions) Steps(ctx context.Context, run string) ([]transcript.Step, error) {
	rows, err := db.New(s.pool).ListSteps(ctx, run)
	if err != nil {
		return nil, fail(err, "read steps")
	}
	var steps []transcript.Step
	for _, row := range rows {
		if steps, err = addHalf(steps, row); err != nil {
			return nil, fail(fmt.Errorf("step %d of run %s: %w", row.Step, run, err), "read steps")
		}
	}
	return steps, nil
}

func addHalf(steps []transcript.Step, row db.ListStepsRow) ([]transcript.Step, error) {
	if row.Part == partTurn {
		var turn harnessv1.Turn
		if err := proto.Unmarshal(row.Body, &turn); err != nil {
			return nil, err
		}
		step := transcript.Step{Turn: wire.FromTurn(&turn)}
		step.At = row.CreatedAt
		return append(steps, step), nil
	}
	var results harnessv1.Message
	if err := proto.Unmarshal(row.Body, &results); err != nil {
		return nil, err
	}
	n := len(steps)
	if n == 0 || steps[n-1].Step != int(row.Step) {
		return nil, errors.New("results without a turn")
	}
	steps[n-1].Results, steps[n-1].Done = wire.FromResults(&results), true
	return steps, nil
}

package store

import (
	"context"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// Handed implements [live.Store].
func (s *Sessions) Handed(ctx context.Context, run record.Run, calls []string) (record.Handed, error) {
	h := record.Handed{Calls: map[string]int{}, Spent: map[string][]contract.SpentBefore{}}
	err := s.handed(ctx, run, calls, &h)
	return h, database.Fail(err, "read a run that was handed over")
}

func (s *Sessions) handed(ctx context.Context, run record.Run, calls []string, h *record.Handed) error {
	q := db.New(s.db)
	asked, err := q.ApprovalsOfCalls(ctx, run.ID, calls)
	if err != nil {
		return err
	}
	for _, row := range asked {
		h.Approvals = append(h.Approvals, approvalFromRow(db.GetApprovalRow(row)))
	}
	callers, err := q.CallersOf(ctx, run.ID)
	if err != nil {
		return err
	}
	callerOf := make(map[string]string, len(callers))
	over := map[string]bool{}
	for _, i := range callers {
		callerOf[i.ID], over[i.ID] = i.ParentID, record.InvocationState(i.State).Over()
	}
	spent, err := q.RunSpend(ctx, run.ID)
	if err != nil {
		return err
	}
	for _, row := range spent {
		h.Calls[row.InvocationID] = max(h.Calls[row.InvocationID], int(row.LastCall))
		bears := row.InvocationID
		for over[bears] {
			bears = callerOf[bears]
		}
		h.Spent[bears] = append(h.Spent[bears], contract.SpentBefore{
			Agent: row.AgentPath, Amount: contract.Amount{NanoUSD: row.NanoUsd, Tokens: row.Tokens, Calls: row.Calls},
		})
	}
	spans, err := q.SpansOfMessage(ctx, run.SessionID, run.MessageID)
	if err != nil || len(spans) == 0 {
		return err
	}
	for _, row := range spans {
		h.Spans = append(h.Spans, contract.Span{MessageID: run.MessageID, From: int(row.FromStep), To: int(row.ToStep)})
	}
	gone, err := q.SupersededHistory(ctx, run.SessionID)
	h.Summary, h.SupersededTurns = gone.Summary, int(gone.Turns)
	return err
}

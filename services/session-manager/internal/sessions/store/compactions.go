package store

import (
	"context"
	"encoding/json"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/page"
	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// queueCompactions adds a change's statements about compactions to q.
func queueCompactions(ctx context.Context, q *db.Queries, session string, c record.Change) error {
	if f := c.Flagged; f != nil {
		if err := q.FlagCompaction(ctx, f.Flag, f.Notes, f.ID, session); err != nil {
			return err
		}
	}
	if c.Undone != "" {
		if err := q.UndoCompaction(ctx, c.At, c.Undone, session); err != nil {
			return err
		}
	}
	if m := c.Kept; m != nil {
		if err := q.KeepMessage(ctx, m.AlwaysKeep, m.ID, session); err != nil {
			return err
		}
	}
	for _, done := range c.Compactions {
		err := q.InsertCompaction(ctx, db.InsertCompactionParams{
			ID: done.ID, SessionID: done.SessionID, RunID: done.RunID, InvocationID: done.InvocationID,
			AgentPath: done.Audit.Agent, Trigger: string(done.Trigger), Strategy: done.Strategy,
			BeforeTokens: done.Before, AfterTokens: done.After, WindowTokens: done.Window,
			UpperThreshold: done.Upper, LowerThreshold: done.Lower, Turns: int32(done.Turns),
			Messages: int32(done.Messages), Summary: done.Summary, Fallback: done.Fallback, Reason: done.Reason,
			DurationMs: done.DurationMS, CreatedAt: done.At, SummaryMessageID: done.SummaryMessageID,
			Compactor: compactorText(done.Compactor), Fired: firedText(done.Fired),
		})
		if err != nil {
			return err
		}
		if len(done.Spans) == 0 {
			continue
		}
		spans := db.InsertSpansParams{CompactionID: done.ID, SessionID: done.SessionID}
		for i, s := range done.Spans {
			spans.Ns = append(spans.Ns, int32(i+1))
			spans.MessageIds = append(spans.MessageIds, s.MessageID)
			spans.FromSteps, spans.ToSteps = append(spans.FromSteps, int32(s.From)), append(spans.ToSteps, int32(s.To))
		}
		if err := q.InsertSpans(ctx, spans); err != nil {
			return err
		}
	}
	return nil
}

// use is the stored use of a summarizer.
type use struct {
	Provider string   `json:"provider"`
	Model    string   `json:"model"`
	Input    int64    `json:"input_tokens"`
	Output   int64    `json:"output_tokens"`
	Cost     *float64 `json:"cost_usd,omitempty"`
}

func compactorText(u *contract.CompactorUse) *string {
	if u == nil {
		return nil
	}
	kept, err := json.Marshal(use(*u))
	if err != nil {
		return nil // the cost is not a number
	}
	return text(kept)
}

func firedText(list []contract.FiredHook) *string {
	if len(list) == 0 {
		return nil
	}
	kept, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return text(kept)
}

func firedFromText(s string) (list []contract.FiredHook) {
	if s == "" || json.Unmarshal([]byte(s), &list) != nil {
		return nil
	}
	return list
}

func compactorFromText(s string) *contract.CompactorUse {
	var u use
	if s == "" || json.Unmarshal([]byte(s), &u) != nil {
		return nil
	}
	return &contract.CompactorUse{Provider: u.Provider, Model: u.Model, Input: u.Input, Output: u.Output, Cost: u.Cost}
}

// Compactions implements [sessions.Store].
func (s *Sessions) Compactions(
	ctx context.Context, session, agent string, after *page.Key, limit int32,
) ([]record.Compaction, error) {
	p := db.ListCompactionsParams{SessionID: session, AgentPath: agent, RowLimit: limit}
	if after != nil {
		p.BeforeAt, p.BeforeID = after.N, after.S
	}
	return s.compactions(ctx, p)
}

// Compaction implements [sessions.Store].
func (s *Sessions) Compaction(ctx context.Context, session, id string) (record.Compaction, error) {
	list, err := s.compactions(ctx, db.ListCompactionsParams{SessionID: session, ID: id, RowLimit: 1})
	if err == nil && len(list) == 0 {
		err = record.CompactionNotFound(id)
	}
	if err != nil {
		return record.Compaction{}, err
	}
	return list[0], nil
}

func (s *Sessions) compactions(ctx context.Context, p db.ListCompactionsParams) ([]record.Compaction, error) {
	q := db.New(s.db)
	rows, err := q.ListCompactions(ctx, p)
	if err != nil {
		return nil, database.Fail(err, "list compactions")
	}
	list, ids, place := make([]record.Compaction, len(rows)), make([]string, len(rows)), map[string]int{}
	for i, row := range rows {
		ids[i], place[row.ID] = row.ID, i
		list[i] = record.Compaction{
			SessionID: p.SessionID, RunID: row.RunID, InvocationID: row.InvocationID, AgentPath: row.AgentPath,
			Flag: row.OperatorFlag, Notes: row.OperatorNotes,
			Compaction: contract.Compaction{
				Phase: contract.CompactionCompleted, ID: row.ID, Trigger: contract.CompactionTrigger(row.Trigger),
				Strategy: row.Strategy, Before: row.BeforeTokens, After: row.AfterTokens, Window: row.WindowTokens,
				Upper: row.UpperThreshold, Lower: row.LowerThreshold, Turns: int(row.Turns), Messages: int(row.Messages),
				Summary: row.Summary, Fallback: row.Fallback, Reason: row.Reason, DurationMS: row.DurationMs,
				At: row.CreatedAt, Compactor: compactorFromText(row.Compactor), SummaryMessageID: row.SummaryMessageID,
				Fired: firedFromText(row.Fired),
			},
		}
		if row.UndoneAt != nil {
			list[i].UndoneAt = *row.UndoneAt
		}
	}
	spans, err := q.SpansOf(ctx, ids)
	for _, row := range spans {
		of := &list[place[row.CompactionID]]
		of.Spans = append(of.Spans, contract.Span{MessageID: row.MessageID, From: int(row.FromStep), To: int(row.ToStep)})
	}
	return list, database.Fail(err, "list the spans of compactions")
}

// shownSuperseded bounds the returned text of a superseded message, in characters.
const shownSuperseded = 2000

// SupersededMessages implements [sessions.Store].
func (s *Sessions) SupersededMessages(ctx context.Context, session, compaction string) ([]record.Message, error) {
	rows, err := db.New(s.db).SupersededMessages(ctx, shownSuperseded, session, compaction)
	list := make([]record.Message, len(rows))
	for i, row := range rows {
		list[i] = record.Message{
			ID: row.ID, SessionID: session, Role: record.Role(row.Role), Content: row.Content, CreatedAt: row.CreatedAt,
		}
	}
	return list, database.Fail(err, "list superseded messages")
}

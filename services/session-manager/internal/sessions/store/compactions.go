package store

import (
	"context"

	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// queueCompactions words the compactions of a change.
func queueCompactions(ctx context.Context, q *db.Queries, c record.Change) error {
	for _, done := range c.Compactions {
		err := q.InsertCompaction(ctx, db.InsertCompactionParams{
			ID: done.ID, SessionID: done.SessionID, RunID: done.RunID, InvocationID: done.InvocationID,
			AgentPath: done.Audit.Agent, Trigger: string(done.Trigger), Strategy: done.Strategy,
			BeforeTokens: done.Before, AfterTokens: done.After, WindowTokens: done.Window,
			UpperThreshold: done.Upper, LowerThreshold: done.Lower, Turns: int32(done.Turns),
			Messages: int32(done.Messages), Summary: done.Summary, Fallback: done.Fallback, Reason: done.Reason,
			DurationMs: done.DurationMS, CreatedAt: done.At,
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

package runs

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// compaction handles a stage of a compaction. A completed one is stored with its frame and the use of its
// summarizer before the turn that follows, so that a client that receives the frame can fetch it.
func (l *relay) compaction(a *agent, e contract.Compaction) error {
	if e.Phase != contract.CompactionCompleted {
		return l.told(a.ID, e)
	}
	done := record.Compaction{Compaction: e, SessionID: l.spec.Session.ID, RunID: l.ID(), InvocationID: a.ID}
	if a.ID != "" {
		done.Spans = nil // the conversation of an agent below the root is not stored
	}
	l.keep(job{compactions: []record.Compaction{done}, audit: l.abouts(e.Audit), settled: a.settled})
	a.settled = nil
	return nil
}

// Compacted adds a completed compaction, and its summarizer's message, to a change.
func Compacted(r frames.Renderer, c *record.Change, done record.Compaction) error {
	if use := done.Compactor; use != nil && done.InvocationID == "" && done.Fallback == "" {
		done.SummaryMessageID = ident.New()
		m := record.Message{
			ID: done.SummaryMessageID, SessionID: done.SessionID, Role: record.System, Content: done.Summary, RunID: done.RunID,
			Cost: use.Cost, CreatedAt: done.At,
			Metadata: &transcript.Metadata{
				Kind: transcript.KindSummary, Provider: use.Provider, Model: use.Model, StopReason: llm.StopEnd,
				Usage: &llm.Usage{Input: use.Input, Output: use.Output},
			},
		}
		c.Messages = append(c.Messages, m)
	}
	shown, err := frames.RenderDurable(r, done.ID, frames.Told{
		SessionID: done.SessionID, RunID: done.RunID, InvocationID: done.InvocationID, Event: done.Compaction,
	})
	if err != nil {
		return err
	}
	c.Compactions = append(c.Compactions, done)
	c.Outbox = append(c.Outbox, shown)
	return nil
}

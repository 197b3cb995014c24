package runs

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// compaction takes in a stage of a compaction. A completed one is stored with its frame, before the turn that
// follows; a client that is told of it finds it.
func (l *relay) compaction(invocation string, e contract.Compaction) error {
	if e.Phase != contract.CompactionCompleted {
		return l.told(invocation, e)
	}
	done := record.Compaction{Compaction: e, SessionID: l.spec.Session.ID, RunID: l.ID(), InvocationID: invocation}
	if invocation != "" {
		done.Spans = nil // the conversation of an agent below the root ends with its call
	}
	l.keep(job{compactions: []record.Compaction{done}, audit: l.abouts(e.Audit)})
	return nil
}

// compacted adds a completed compaction to a change.
func compacted(r frames.Renderer, c *record.Change, done record.Compaction) error {
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

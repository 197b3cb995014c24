package sessions

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Compactions returns a page of a session's compactions, newest first; a non-empty agent filters them. It fails
// with not_found.
func (s *Service) Compactions(
	ctx context.Context, session, agent string, limit int32, cursor string,
) (page.Page[record.Compaction], error) {
	none := page.Page[record.Compaction]{}
	req, err := page.Parse("compactions", limit, cursor)
	if err != nil {
		return none, err
	}
	if _, err := s.find(ctx, session); err != nil {
		return none, err
	}
	rows, err := s.Store.Compactions(ctx, session, agent, req.After, req.Fetch())
	return page.Cut(req, rows, func(c record.Compaction) page.Key { return page.Key{N: c.At, S: c.ID} }), err
}

// Compaction returns a compaction with its superseded messages. It fails with not_found.
func (s *Service) Compaction(ctx context.Context, session, id string) (record.Compaction, []record.Message, error) {
	if _, err := s.find(ctx, session); err != nil {
		return record.Compaction{}, nil, err
	}
	if !check.Findable(strings.TrimPrefix(id, "cmp_")) {
		return record.Compaction{}, nil, record.CompactionNotFound(id)
	}
	c, err := s.Store.Compaction(ctx, session, id)
	if err != nil {
		return c, nil, err
	}
	gone, err := s.Store.SupersededMessages(ctx, session, id)
	return c, gone, err
}

// maxNotes bounds the operator's notes on a compaction, in characters.
const maxNotes = 4096

// compactionFlags are the possible judgements of a compaction.
var compactionFlags = []string{"good", "bad", "neutral"}

// FlagCompaction stores the operator's judgement of a compaction and returns the compaction. It fails with
// bad_request if neither flag nor notes is given, and with validation_failed, not_found and gone.
func (s *Service) FlagCompaction(
	ctx context.Context, session, id string, flag, notes Field[string],
) (record.Compaction, []record.Message, error) {
	switch {
	case !flag.Given && !notes.Given:
		return record.Compaction{}, nil, fault.New(fault.BadRequest, "The body must hold flag or notes.")
	case flag.Value != nil && !slices.Contains(compactionFlags, *flag.Value):
		return record.Compaction{}, nil, check.Field("flag", "flag must be good, bad, neutral or null.")
	case notes.Value != nil && utf8.RuneCountInString(*notes.Value) > maxNotes:
		return record.Compaction{}, nil, check.Field("notes", "notes must have at most %d characters.", maxNotes)
	}
	if notes.Value != nil {
		if err := check.Text("notes", *notes.Value, 0); err != nil {
			return record.Compaction{}, nil, err
		}
	}
	err := s.changeCompaction(ctx, session, id, func(current record.Session, c record.Compaction) (record.Change, error) {
		f := &record.CompactionFlag{ID: id, Flag: c.Flag, Notes: c.Notes}
		if flag.Given {
			f.Flag = flag.Value
		}
		if notes.Given {
			f.Notes = notes.Value
		}
		length := 0
		if f.Notes != nil {
			length = utf8.RuneCountInString(*f.Notes)
		}
		shown, err := frames.RenderDurable(s.Renderer, ident.New(), frames.CompactionFlagged{
			SessionID: session, CompactionID: id, Flag: f.Flag, Notes: length,
		})
		payload := map[string]any{"compaction_id": id, "session_id": session, "flag": nil, "notes_length": length}
		if f.Flag != nil {
			payload["flag"] = *f.Flag
		}
		return record.Change{
			At: now(), Flagged: f, Outbox: []frames.Durable{shown},
			Audit: []audit.Record{about(ctx, current, "compaction.flagged", payload)},
		}, err
	})
	if err != nil {
		return record.Compaction{}, nil, err
	}
	return s.Compaction(ctx, session, id)
}

// UndoCompaction undoes the last valid compaction of an agent. It fails with not_found, gone, and conflict
// (details.reason run_active, already_undone or overlapped).
func (s *Service) UndoCompaction(ctx context.Context, session, id string) (record.Compaction, []record.Message, error) {
	err := s.changeCompaction(ctx, session, id, func(current record.Session, c record.Compaction) (record.Change, error) {
		if err := atRest(current); err != nil {
			return record.Change{}, err
		}
		if c.UndoneAt != 0 {
			return record.Change{}, fault.New(fault.Conflict, "The compaction is undone already.").With("reason",
				"already_undone")
		}
		later, err := s.Store.Compactions(ctx, session, c.AgentPath, nil, page.Max)
		if err != nil {
			return record.Change{}, err
		}
		for _, other := range later {
			if other.ID == id {
				break
			}
			if other.UndoneAt == 0 && other.InvocationID == c.InvocationID {
				return record.Change{}, fault.New(fault.Conflict,
					"A later compaction, %s, builds on this one; undo that first.", other.ID).With("reason", "overlapped")
			}
		}
		shown, err := frames.RenderDurable(s.Renderer, ident.New(), frames.CompactionUndone{
			SessionID: session, CompactionID: id, AgentPath: c.AgentPath,
		})
		r := about(ctx, current, "compaction.undone", map[string]any{"compaction_id": id, "session_id": session})
		r.AgentPath = c.AgentPath
		return record.Change{At: now(), Undone: id, Outbox: []frames.Durable{shown}, Audit: []audit.Record{r}}, err
	})
	if err != nil {
		return record.Compaction{}, nil, err
	}
	return s.Compaction(ctx, session, id)
}

// changeCompaction changes a compaction of the caller's session.
func (s *Service) changeCompaction(
	ctx context.Context, session, id string, decide func(record.Session, record.Compaction) (record.Change, error),
) error {
	if _, _, err := s.Compaction(ctx, session, id); err != nil {
		return err
	}
	l, release, err := s.acquire(ctx, session)
	if err != nil {
		return err
	}
	defer release()
	return l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		c, err := s.Store.Compaction(ctx, session, id)
		if err != nil {
			return record.Change{}, err
		}
		return decide(current, c)
	}, nil)
}

// KeepMessage sets whether compactions must keep a message, and returns the message. It fails with bad_request if
// keep is nil, and with not_found and gone.
func (s *Service) KeepMessage(ctx context.Context, session, id string, keep *bool) (record.Message, error) {
	if keep == nil {
		return record.Message{}, fault.New(fault.BadRequest, "The body must hold always_keep.")
	}
	if _, err := s.find(ctx, session); err != nil {
		return record.Message{}, err
	}
	notFound := fault.New(fault.NotFound, "There is no message %q in this session.", id)
	if !check.Findable(id) {
		return record.Message{}, notFound
	}
	place, err := s.Store.Ordinal(ctx, session, id)
	if fault.CodeOf(err) == fault.NotFound {
		return record.Message{}, notFound
	}
	if err != nil {
		return record.Message{}, err
	}
	l, release, err := s.acquire(ctx, session)
	if err != nil {
		return record.Message{}, err
	}
	defer release()
	err = l.Update(ctx, "", func(current record.Session) (record.Change, error) {
		return record.Change{
			At: now(), Kept: &record.MessageMark{ID: id, AlwaysKeep: *keep},
			Audit: []audit.Record{about(ctx, current, "message.marked", map[string]any{"message_id": id, "always_keep": *keep})},
		}, nil
	}, nil)
	if err != nil {
		return record.Message{}, err
	}
	list, _, err := s.Store.Messages(ctx, session, record.Part{After: place - 1}, 1)
	if err == nil && len(list) == 0 {
		err = notFound
	}
	if err != nil {
		return record.Message{}, err
	}
	return list[0], nil
}

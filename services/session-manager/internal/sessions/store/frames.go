package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/postgres/database"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store/db"
)

// SaveProgress implements [frames.Saver].
func (s *Sessions) SaveProgress(ctx context.Context, list []frames.Progress) error {
	var seqs struct {
		sessions, channels []string
		last               []int64
	}
	var published struct {
		sessions []string
		ns       []int64
	}
	for _, p := range list {
		for c, n := range p.Acked {
			if n > 0 {
				seqs.sessions = append(seqs.sessions, p.Session)
				seqs.channels = append(seqs.channels, frames.Channel(c).String())
				seqs.last = append(seqs.last, n)
			}
		}
		for _, n := range p.Published {
			published.sessions = append(published.sessions, p.Session)
			published.ns = append(published.ns, n)
		}
	}
	var p database.Pipeline
	q := db.New(&p)
	if len(seqs.last) > 0 {
		_ = q.SaveSeqs(ctx, seqs.sessions, seqs.channels, seqs.last) // a pipeline accepts every statement
	}
	if len(published.ns) > 0 {
		_ = q.StrikeOutbox(ctx, published.sessions, published.ns)
	}
	return database.Fail(p.Send(ctx, s.db), "note published frames")
}

// Load implements [live.Store].
func (s *Sessions) Load(ctx context.Context, session string, first bool) (live.Loaded, error) {
	var l live.Loaded
	var err error
	l.Session, err = s.session(ctx, session, true, "")
	if err != nil || first && l.Session.CurrentRun == "" && l.Session.ResumeRun == "" {
		return l, err
	}
	if err := s.loadFrames(ctx, &l); err != nil {
		return l, database.Fail(err, "load frames")
	}
	waiting, err := db.New(s.db).ListSteers(ctx, session)
	if err != nil {
		return l, database.Fail(err, "load steering messages")
	}
	for _, w := range waiting {
		l.Session.Steers = append(l.Session.Steers, record.Steer{ID: w.ID, Content: w.Content, CreatedAt: w.CreatedAt})
	}
	cut, err := db.New(s.db).CutCompactions(ctx, l.Session.Owner, session)
	if err != nil {
		return l, database.Fail(err, "load compactions")
	}
	for _, c := range cut {
		l.Compactions = append(l.Compactions, live.CutCompaction{ID: c.RunID, Agent: c.AgentPath})
	}
	if l.Session.State == record.Running && l.Session.CurrentRun != "" {
		l.Run, err = s.loadRun(ctx, &l, l.Session.CurrentRun)
	} else if l.Session.ResumeRun != "" {
		l.Resume, err = s.loadRun(ctx, &l, l.Session.ResumeRun)
	}
	return l, err
}

// loadRun reads a run to be repaired, with its pending approvals, and the number of runs for its message.
func (s *Sessions) loadRun(ctx context.Context, l *live.Loaded, id string) (*record.Run, error) {
	run, err := s.Run(ctx, l.Session.ID, id)
	if err != nil {
		return nil, err
	}
	if run.Asking, err = s.pending(ctx, run.ID); err != nil {
		return nil, database.Fail(err, "load approvals")
	}
	tries, err := db.New(s.db).CountTries(ctx, l.Session.ID, run.TriggerMessageID)
	l.Tries = int(tries)
	return &run, database.Fail(err, "load run")
}

// loadFrames reads the numbers of the channels and the outbox.
func (s *Sessions) loadFrames(ctx context.Context, l *live.Loaded) error {
	q := db.New(s.db)
	seqs, err := q.ListSeqs(ctx, l.Session.ID)
	if err != nil {
		return err
	}
	for _, row := range seqs {
		if c, ok := frames.ParseChannel(row.Channel); ok {
			l.Stored[c] = row.Seq
		}
	}
	outbox, err := q.ListOutbox(ctx, l.Session.ID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	for _, row := range outbox {
		if c, ok := frames.ParseChannel(row.Channel); ok {
			f := frames.Frame{Channel: c, Type: row.Kind, Payload: row.Payload}
			l.Outbox = append(l.Outbox, frames.Durable{Frame: f, N: row.N, ID: row.MsgID})
		}
	}
	return nil
}

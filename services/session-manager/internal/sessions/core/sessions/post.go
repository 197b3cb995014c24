package sessions

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// Post is an operator's message. Given overrides are stored in the session.
type Post struct {
	SessionID string
	// Content is nil if absent.
	Content                   *string
	Model                     *string
	MaxSteps, MaxOutputTokens *int32
	// Steer says that an active run receives the message.
	Steer bool
}

// Posted is a stored message.
type Posted struct {
	MessageID, SessionID, RunID string
	AcceptedAt                  int64
	// Full is the reason if the run waits for a slot, nil if it has begun.
	Full *Full
	// Steered says that the message waits for the run's next step boundary.
	Steered bool
}

// Post stores a message and starts a run, or queues the run if no slot is free; both are stored when it returns. It
// fails with validation_failed, payload_too_large, not_found, gone for an ended session, project_not_ready, and
// with conflict for a running session (details.current_message), a queued or paused one (details.current_state) and
// an issue on which another run works (details.reason issue_busy). A steering message goes to the active run, see
// [posting.steer].
func (s *Service) Post(ctx context.Context, in Post) (Posted, error) {
	patch, err := s.checkPost(in)
	if err != nil {
		return Posted{}, err
	}
	l, release, err := s.acquire(ctx, in.SessionID)
	if err != nil {
		return Posted{}, err
	}
	defer release()
	p := &posting{
		ctx: ctx, s: s, in: in, patch: patch, requestID: ident.CallerFrom(ctx).RequestID,
		message: ident.New(), run: ident.New(), answer: ident.New(),
	}
	p.guessed = l.Inputs()
	for range postTries {
		// The session may still change, but preparing a message that it refuses already would be wasted.
		settled, err := l.Settled(ctx)
		if err == nil && in.Steer {
			posted, taken, err := p.steer(l)
			if taken || err != nil {
				return posted, err
			}
		}
		if err == nil {
			err = accepts(settled)
		}
		if err != nil {
			return Posted{}, err
		}
		if err := p.prepare(l); err != nil {
			return Posted{}, err
		}
		err = p.start(l)
		if record.IsNoSlot(err) {
			err = p.wait(l, err)
		}
		if err == nil {
			l.SetInputs(p.inputs)
			return p.posted(), nil
		}
		if !errors.Is(err, errOvertaken) {
			return Posted{}, err
		}
	}
	return Posted{}, errOvertaken
}

// awaitStart waits until fewer than RunStarts messages are being stored.
func (s *Service) awaitStart(ctx context.Context) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.starts <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Waiting returns the number of messages that wait in awaitStart.
func (s *Service) Waiting() int { return int(s.waiting.Load()) }

// start stores the message and begins its run, which the harness prepares meanwhile. If the message is not stored,
// the run is withdrawn from the harness. The wait in awaitStart comes after the session's change lock, so that a
// session locked by another change delays no other session.
func (p *posting) start(l *live.Session) error {
	return p.begin(l, func(current record.Session) (record.Change, error) { return p.decide(current, record.Posted) })
}

// begin applies the change that decide returns and begins the run in p.spec, see [posting.start].
func (p *posting) begin(l *live.Session, decide func(record.Session) (record.Change, error)) error {
	var ready *runs.Run
	err := l.Start(p.ctx, crash.MessageStored, func(current record.Session) (record.Change, *runs.Run, error) {
		if p.shaped != l.Shaped() {
			return record.Change{}, nil, errOvertaken
		}
		c, err := decide(current)
		if err != nil {
			return c, nil, err
		}
		if err := p.s.awaitStart(p.ctx); err != nil {
			return c, nil, err
		}
		ready = l.Ready(p.spec)
		ready.Foresee(p.ctx, &c, p.s.Waiting() == 0)
		return c, ready, p.confirm()
	})
	if ready != nil {
		<-p.s.starts
	}
	if err != nil && ready != nil {
		ready.Drop()
	}
	return err
}

// confirm fails with errOvertaken if the run's inputs were guessed and the present ones differ or are not there yet,
// and as their preparation does. It waits at most confirmFor, because it holds the session and a place among RunStarts.
func (p *posting) confirm() error {
	if p.guessed == nil {
		return nil
	}
	late := time.NewTimer(confirmFor)
	defer late.Stop()
	select {
	case <-p.gathering.done:
		if err := p.gathering.err; err != nil || p.gathering.in.Same(p.guessed) {
			return err
		}
	case <-late.C:
	}
	// The harness has been given a run of this id.
	p.guessed, p.run, p.answer = nil, ident.New(), ident.New()
	return errOvertaken
}

// confirmFor is the longest wait for the present inputs of a run that is prepared with guessed ones.
const confirmFor = 5 * time.Millisecond

// posted marks the project as opened and returns the caller's answer.
func (p *posting) posted() Posted {
	of := p.spec.Session
	p.s.Projects.MarkOpened(p.ctx, of.Owner, of.ProjectID)
	return Posted{MessageID: p.message, SessionID: of.ID, RunID: p.run, AcceptedAt: p.spec.Run.CreatedAt, Full: p.full}
}

// postTries bounds the attempts to prepare a message while other messages of the session are stored first.
const postTries = 3

// errOvertaken says that the conversation changed while a message was prepared.
var errOvertaken = fault.New(fault.Conflict, "The conversation keeps changing; try again.")

// checkPost validates the fields of a post, and returns its overrides as a patch.
func (s *Service) checkPost(in Post) (record.Patch, error) {
	var p record.Patch
	switch {
	case in.Content == nil || strings.TrimSpace(*in.Content) == "":
		return p, check.Field("content", "content must hold the message's text.")
	case len(*in.Content) > s.MaxContent:
		return p, fault.New(fault.PayloadTooLarge, "content must have at most %d bytes.", s.MaxContent).
			With("limit_bytes", s.MaxContent)
	}
	if err := check.Text("content", *in.Content, 0); err != nil {
		return p, err
	}
	if in.Steer && (in.Model != nil || in.MaxSteps != nil || in.MaxOutputTokens != nil) {
		return p, check.Field("steer", "A steering message cannot change overrides; leave them out.")
	}
	edit := Edit{MaxSteps: given(in.MaxSteps), MaxOutputTokens: given(in.MaxOutputTokens)}
	if in.Model != nil {
		edit.Model = Field[string]{Given: true, Value: in.Model}
	}
	if edit == (Edit{}) {
		return p, nil
	}
	return edit.patch()
}

func given(n *int32) Field[int64] {
	if n == nil {
		return Field[int64]{}
	}
	wide := int64(*n)
	return Field[int64]{Given: true, Value: &wide}
}

// accepts fails if the session accepts no message in its state.
func accepts(of record.Session) error {
	if of.State == record.Running {
		return fault.New(fault.Conflict, "A run is in progress in this session. Wait, or stop it: kaged cancel %s", of.ID).
			With("current_message", of.CurrentMessage).With("current_state", string(of.State))
	}
	_, err := of.State.On(record.Posted)
	return err
}

// posting is a message being posted.
type posting struct {
	ctx                             context.Context
	s                               *Service
	in                              Post
	patch                           record.Patch
	message, run, answer, requestID string
	// history and inputs are the run's inputs; set by prepare.
	history live.History
	shaped  int64 // the session's [live.Session.Shaped] when history was read
	ledger  contract.Ledger
	inputs  projects.Inputs
	// guessed are the inputs of the session's last message, with which the run is prepared while gathering finds out the
	// present ones; nil if inputs are the present ones.
	guessed   *projects.Inputs
	gathering *gathering
	// spec is the run to begin; set by decide or resume.
	spec runs.Spec
	// full is the reason if the run waits for a slot, nil if it does not.
	full *Full
}

// prepare gathers the run's inputs: the conversation, the ledger, and the prompts and routes, the present ones or the
// guessed ones.
func (p *posting) prepare(l *live.Session) error {
	p.shaped = l.Shaped()
	pin := live.PinOf(p.patch.On(l.Record()))
	if p.guessed != nil && p.guessed.Of(pin) {
		p.inputs, p.gathering = *p.guessed, p.gather(pin)
		var failure, unread error
		p.history, failure = l.History(p.ctx) // as a rule both are cached
		p.ledger, unread = l.Ledger(p.ctx)
		return cmp.Or(failure, unread)
	}
	p.guessed = nil
	var reading sync.WaitGroup
	var err, failure, unread error
	reading.Go(func() { p.history, failure = l.History(p.ctx) })
	reading.Go(func() { p.ledger, unread = l.Ledger(p.ctx) })
	if g := p.gathering; g != nil {
		<-g.done
		p.inputs, err, p.gathering = g.in, g.err, nil
	} else {
		p.inputs, err = p.s.Projects.Prepare(p.ctx, pin)
	}
	reading.Wait()
	return cmp.Or(err, failure, unread)
}

// gathering is a preparation of a run's inputs in the background.
type gathering struct {
	done chan struct{} // closed when the fields below are set
	in   projects.Inputs
	err  error
}

// gather begins to prepare the run's inputs.
func (p *posting) gather(pin projects.Pin) *gathering {
	g := &gathering{done: make(chan struct{})}
	go func() { // ends with the context of the request
		defer close(g.done)
		g.in, g.err = p.s.Projects.Prepare(p.ctx, pin)
	}()
	return g
}

// decide returns the change that stores the message: with a run that begins if as is [record.Posted], or one that
// waits if as is [record.Throttled].
func (p *posting) decide(current record.Session, as record.Event) (record.Change, error) {
	if err := accepts(current); err != nil {
		return record.Change{}, err
	}
	if current.MessageCount != int64(len(p.history.Messages)) {
		return record.Change{}, errOvertaken
	}
	next, err := current.State.On(as)
	if err != nil {
		return record.Change{}, err
	}
	at := now()
	run := record.Run{
		ID: p.run, SessionID: current.ID, Owner: current.Owner, ProjectID: current.ProjectID, TriggerMessageID: p.message,
		MessageID: p.answer, State: record.RunRunning, CompiledHash: current.CompiledHash,
		PromptHashes: p.inputs.PromptHashes,
		CreatedAt:    at, StartedAt: at, Cage: runs.CageAtStart(p.inputs.Snapshot), Issue: current.Issue,
	}
	message := record.Message{
		ID: p.message, SessionID: current.ID, Role: record.Operator, Content: *p.in.Content, RunID: p.run, CreatedAt: at,
	}
	c := record.Change{
		At: at, Session: p.patch, NewRun: &run, Messages: []record.Message{message}, Audit: p.audit(current),
		Slot: p.s.slot(p.ctx, current.Owner),
	}
	c.Session.State = next
	if current.Label == "" && current.MessageCount == 0 {
		label := labelFor(message.Content)
		c.Session.Label = &label
	}
	first := as == record.Posted && c.Recall(current)
	p.spec = runs.Spec{
		First: first, Session: c.On(current), Run: run, RequestID: p.requestID, Inputs: p.inputs, Tries: 1,
		Stored: p.history.Stored, Posted: record.History(nil, message), Ledger: p.ledger,
	}
	err = runs.Announce(p.s.Renderer, &c, run, p.inputs.HeldPrompts, current.BlockedReason)
	return c, err
}

// notResumed returns the audit record for an interrupted run that is not resumed because of an operator's action,
// and none if the session has no run to resume.
func notResumed(ctx context.Context, current record.Session, why string) []audit.Record {
	if current.ResumeRun == "" {
		return nil
	}
	r := about(ctx, current, "run.not_resumed", map[string]any{
		"error_code": fault.Cancelled.String(), "error_message": why,
	})
	r.RunID = current.ResumeRun
	return []audit.Record{r}
}

func (p *posting) audit(current record.Session) []audit.Record {
	payload := fields(p.patch)
	payload["message_id"], payload["bytes"] = p.message, len(*p.in.Content)
	posted := about(p.ctx, current, "message.posted", payload)
	posted.RunID = p.run
	records := append([]audit.Record{posted}, notResumed(p.ctx, current, "The operator's next message came first.")...)
	return append(records, p.prompts(current)...)
}

// prompts returns audit records for the prompts that have changed and for those that were held back.
func (p *posting) prompts(current record.Session) (records []audit.Record) {
	for _, path := range p.inputs.ChangedPrompts {
		r := about(p.ctx, current, "prompt.reloaded", map[string]any{"path": path, "sha256": p.inputs.PromptHashes[path]})
		r.RunID = p.run
		records = append(records, r)
	}
	for _, h := range p.inputs.HeldPrompts {
		r := about(p.ctx, current, "prompt.held", map[string]any{
			"path": h.Path, "accepted_sha256": h.Accepted, "sha256": h.Found,
		})
		r.RunID = p.run
		records = append(records, r)
	}
	return records
}

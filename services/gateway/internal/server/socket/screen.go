package socket

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/gateway/internal/core/terminal"
)

// screen is a terminal that a socket shows. It has two goroutines: one sends output to the client, one sends input
// to the process.
type screen struct {
	name    string // the name of the channel
	process string
	address string // the address in its frames; empty for plain frames
	lane    int
	from    int64 // the offset of the first byte to show
	ctx     context.Context
	cancel  context.CancelFunc
	room    chan struct{} // receives a value when a frame of the lane was sent or dropped
	pending chan struct{} // receives a value when input is queued

	// Guarded by the socket's mu.
	input []keys
	bytes int   // of input
	seq   int64 // of the last event
}

// keys are a client's input, or a new size if cols is set.
type keys struct {
	data       []byte
	cols, rows uint32
}

// isTerminal reports whether a channel belongs to a terminal.
func isTerminal(name string) bool { return strings.HasPrefix(name, terminal.Prefix) }

// show subscribes to a terminal. mu is held.
func (s *Socket) show(name string, c *apiv1.Channels) {
	process := strings.TrimPrefix(name, terminal.Prefix)
	free, plain := -1, false
	for i, other := range s.screens {
		switch {
		case other == nil && s.queue.Waiting(lanes+i) > 0: // frames of the previous terminal are still queued
		case other == nil:
			free = i
		case other.name == name:
			return
		case other.address == "":
			plain = true
		}
	}
	limit := s.hub.deps.Limits.Terminals
	switch {
	case !ident.Valid(process):
		s.refuse(name, fault.New(fault.NotFound, "There is no PTY of this process."))
		return
	case plain && !c.GetAddressed():
		s.refuse(name, fault.New(fault.Conflict,
			"This socket shows a terminal with plain frames; subscribe with addressed for another one.").
			With("reason", "pty_not_addressed"))
		return
	case free < 0 && len(s.screens) >= limit:
		s.refuse(name, fault.New(fault.RateLimited,
			"This socket shows %d terminals, its maximum; unsubscribe from one.", limit))
		return
	case free < 0:
		free = len(s.screens)
		s.screens = append(s.screens, nil)
	}
	t := &screen{
		name: name, process: process, lane: lanes + free, from: max(0, c.GetOffsets()[name]),
		room: make(chan struct{}, 1), pending: make(chan struct{}, 1),
	}
	if c.GetAddressed() {
		t.address = process
	}
	t.ctx, t.cancel = context.WithCancel(s.ctx)
	s.screens[free], s.shown = t, true
	s.workers.Add(1)
	go s.worker(func() { s.run(t) })
}

// hide unsubscribes from a terminal. mu is held.
func (s *Socket) hide(name string, _ *apiv1.Channels) {
	if t := s.screen(name); t != nil {
		s.drop(t)
		s.queue.Drop(t.lane)
	}
}

// drop removes a terminal from the socket. mu is held.
func (s *Socket) drop(t *screen) {
	t.cancel()
	if s.screens[t.lane-lanes] == t {
		s.screens[t.lane-lanes] = nil
	}
}

// screen returns the terminal of a channel, or nil. mu is held.
func (s *Socket) screen(name string) *screen {
	for _, t := range s.screens {
		if t != nil && t.name == name {
			return t
		}
	}
	return nil
}

// run shows a terminal until its process ends or the client unsubscribes or leaves.
func (s *Socket) run(t *screen) {
	defer func() {
		s.mu.Lock()
		s.drop(t)
		s.mu.Unlock()
	}()
	port, err := s.hub.deps.Terminals(t.ctx, s.session, t.process)
	if err != nil {
		s.lose(t, err)
		return
	}
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		s.guard(func() { s.typing(t, port) })
	}()
	s.follow(t, port)
	t.cancel()
	<-typed
}

// fail reports to the client that input was not sent to the process.
func (s *Socket) fail(t *screen, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ctx.Err() == nil {
		s.refuse(t.name, err)
	}
}

// lose ends the subscription to a terminal with an error.
func (s *Socket) lose(t *screen, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ctx.Err() == nil {
		s.drop(t)
		s.refuse(t.name, err)
	}
}

// follow sends output to the client. While the supervisor is unavailable it retries for the grace.
func (s *Socket) follow(t *screen, port terminal.Port) {
	v := &view{socket: s, screen: t, next: t.from}
	var lost time.Time
	for {
		before := v.next
		ended, err := port.Follow(t.ctx, v.next, v.attached, v.output)
		switch {
		case t.ctx.Err() != nil:
			return
		case err == nil:
			_ = v.ended(ended)
			return
		case errors.Is(err, fault.ProcessNotFound) && v.begun:
			// A restarted supervisor has killed the process and no longer knows it.
			_ = v.ended(terminal.Ended{Reason: "lost", Offset: v.next})
			return
		case !errors.Is(err, fault.Unavailable):
			s.lose(t, err)
			return
		case lost.IsZero() || v.next > before:
			lost = time.Now()
		case time.Since(lost) >= s.hub.deps.Limits.Grace:
			s.lose(t, err)
			return
		}
		retry.Wait(t.ctx, retryStored)
	}
}

// view is a client's position in the output of a terminal.
type view struct {
	socket   *Socket
	screen   *screen
	begun    bool
	terminal bool
	next     int64 // the offset of the next byte
	replay   int64 // bytes before this offset were written before the subscription
}

func (v *view) attached(p terminal.Process) error {
	if v.begun {
		return nil
	}
	v.begun, v.terminal, v.replay = true, p.Terminal, p.End
	return v.position(min(max(v.next, p.Start), p.End))
}

// position tells the client the offset of the next byte.
func (v *view) position(at int64) error {
	missing := max(0, at-v.next)
	v.next = at
	return v.event(false, "pty.position", &apiv1.PtyPosition{
		ProcessId: v.screen.process, Offset: at, Missing: missing, ReplayEnd: v.replay, Terminal: v.terminal,
	})
}

func (v *view) output(at int64, data []byte) error {
	if at != v.next {
		if err := v.position(at); err != nil {
			return err
		}
	}
	v.next += int64(len(data))
	return v.send(terminal.Data(v.screen.address, data), false)
}

func (v *view) ended(e terminal.Ended) error {
	payload := &apiv1.PtyEnded{
		ProcessId: v.screen.process, Signal: e.Signal, Reason: e.Reason, Offset: e.Offset,
		DurationMs: e.Duration.Milliseconds(),
	}
	if e.Known {
		payload.ExitCode = &e.Code
	}
	return v.event(true, "pty.ended", payload)
}

func (v *view) event(last bool, kind string, payload proto.Message) error {
	v.screen.seq++
	event, err := wirejson.AppendFrame(nil, "pty", v.screen.seq, kind, payload)
	if err != nil {
		return err
	}
	return v.send(terminal.Event(v.screen.address, event), last)
}

// send queues a frame once the lane has room for it. The last frame ends the subscription.
func (v *view) send(frame []byte, last bool) error {
	s, t := v.socket, v.screen
	if !s.awaitRoom(t.ctx, t.lane, len(frame)) {
		return context.Cause(t.ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ctx.Err() != nil || s.phase >= closing {
		return context.Canceled
	}
	s.push(t.lane, frame)
	if last {
		s.drop(t)
	}
	return nil
}

// typed handles a client's binary frame, which is input of a terminal.
func (s *Socket) typed(data []byte) error {
	process, input, err := terminal.Input(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase >= closing:
		return nil
	case s.phase == greeting:
		return fault.New(fault.BadRequest, "The first frame must be hello, and no other.")
	case !s.shown:
		return fault.New(fault.BadRequest, "Binary frames belong to a PTY channel, and none is open.")
	}
	t := s.addressed(process)
	switch {
	case t == nil:
		s.refuse(terminal.Prefix+process,
			fault.New(fault.NotFound, "This socket shows no such terminal; the input was not passed on."))
	case t.bytes+len(input) > s.hub.deps.Limits.Typed:
		s.refuse(t.name,
			fault.New(fault.RateLimited, "The process has not read earlier input; this was not passed on."))
	default:
		t.push(keys{data: input})
	}
	return nil
}

// addressed returns the terminal that a client's frame addresses. An empty id addresses the plain terminal. mu is
// held.
func (s *Socket) addressed(process string) *screen {
	for _, t := range s.screens {
		if t != nil && t.address == process {
			return t
		}
	}
	return nil
}

// maxSide is the maximum number of columns or rows of a terminal.
const maxSide = 10000

// resize queues a new size of a terminal. mu is held.
func (s *Socket) resize(r *apiv1.PtyResize) {
	process := r.GetProcessId()
	if process == "" {
		process = r.GetInvocationId()
	}
	t := s.screen(terminal.Prefix + process)
	switch {
	case t == nil:
		s.refuse(terminal.Prefix+process,
			fault.New(fault.NotFound, "There is no PTY of this process; subscribe to it first."))
	case r.GetCols() < 1 || r.GetRows() < 1 || r.GetCols() > maxSide || r.GetRows() > maxSide:
		s.refuse(t.name, fault.New(fault.ValidationFailed, "cols and rows must be from 1 to %d.", maxSide).
			With("fields", []string{"cols", "rows"}))
	default:
		t.push(keys{cols: r.GetCols(), rows: r.GetRows()})
	}
}

// push queues input or a size. Adjacent input is joined, and a new size replaces a queued one. mu is held.
func (t *screen) push(k keys) {
	t.bytes += len(k.data)
	last := len(t.input) - 1
	switch {
	case last < 0, (t.input[last].cols > 0) != (k.cols > 0):
		t.input = append(t.input, k)
	case k.cols > 0:
		t.input[last] = k
	default:
		t.input[last].data = append(t.input[last].data, k.data...)
	}
	wake(t.pending)
}

// nextKeys removes the first queued input or size. It returns at most MaxKeys bytes.
func (s *Socket) nextKeys(t *screen) (k keys, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(t.input) == 0 {
		return keys{}, false
	}
	k = t.input[0]
	if len(k.data) > terminal.MaxKeys {
		t.input[0].data = k.data[terminal.MaxKeys:]
		k.data = k.data[:terminal.MaxKeys:terminal.MaxKeys]
	} else {
		t.input = t.input[1:]
	}
	t.bytes -= len(k.data)
	return k, true
}

// lastRecord is the timeout of the last audit record of a terminal.
const lastRecord = 5 * time.Second

// typing sends queued input to the process and records it, until the terminal is no longer shown.
func (s *Socket) typing(t *screen, port terminal.Port) {
	typist := terminal.NewTypist(port)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), lastRecord)
		defer cancel()
		s.flush(ctx, t, typist)
	}()
	for {
		var due <-chan time.Time
		if typist.Unrecorded() {
			due = time.After(terminal.RecordWithin)
		}
		select {
		case <-t.pending:
		case <-due:
			s.flush(t.ctx, t, typist)
		case <-t.ctx.Done():
			return
		}
		for k, ok := s.nextKeys(t); ok && t.ctx.Err() == nil; k, ok = s.nextKeys(t) {
			err := s.pass(t, port, typist, k)
			if err != nil {
				s.fail(t, err)
			}
		}
	}
}

func (s *Socket) pass(t *screen, port terminal.Port, typist *terminal.Typist, k keys) error {
	if k.cols > 0 {
		return port.Resize(t.ctx, k.cols, k.rows)
	}
	return typist.Type(t.ctx, k.data)
}

// flush records unrecorded input. On failure the input stays unrecorded and is recorded together with later input.
func (s *Socket) flush(ctx context.Context, t *screen, typist *terminal.Typist) {
	if err := typist.Flush(ctx); err != nil {
		s.hub.deps.Log.Warn("terminal input was not recorded", "session_id", s.session, "process_id", t.process,
			"request_id", s.caller.RequestID, "error", err)
	}
}

package core

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/fault"
)

// threadArguments are the arguments of requests about a thread.
type threadArguments struct {
	ThreadID int `json:"threadId"`
}

// resume continues the program and waits for its next stop.
func (s *session) resume(ctx context.Context, d Do, command string) (Answer, error) {
	s.mu.Lock()
	status := s.status
	if status == Running && command == "continue" { // the stop of a running program is awaited too
		s.mu.Unlock()
		return s.await(ctx, d)
	}
	if status != Stopped {
		s.mu.Unlock()
		return s.notStopped(ctx, d, status)
	}
	stop := s.stop
	thread := d.ThreadID
	if thread == 0 {
		thread = stop.ThreadId
	}
	// Before the request, because the event of the next stop may precede the answer.
	undo := s.move(d)
	s.set(Running)
	s.stepping, s.pausing = command != "continue", false
	epoch := s.epoch
	s.mu.Unlock()
	if thread == 0 {
		thread = s.firstThread(ctx)
	}
	if err := s.call(ctx, command, threadArguments{thread}, nil); err != nil {
		s.mu.Lock()
		if s.status == Running && s.epoch == epoch {
			undo()
			s.set(Stopped)
		}
		exited := s.status == Exited // the program may end before its adapter answers
		s.mu.Unlock()
		if !exited {
			return Answer{}, err
		}
	}
	return s.await(ctx, d)
}

// notStopped returns the answer of an action that needs a stopped program: the state of a program that has exited, or
// an error.
func (s *session) notStopped(ctx context.Context, d Do, status Status) (Answer, error) {
	switch status {
	case Exited:
		return s.answer(ctx, d)
	case Running, starting:
		return Answer{}, s.busy()
	}
	return Answer{}, s.gone()
}

// busy returns the error of actions that need a stopped program.
func (s *session) busy() error {
	f := fault.New(fault.Conflict, "The program is running; pause it, or continue to wait for its next stop.").
		With("reason", "debuggee_running").With("debug_session_id", s.start.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.moved; m != nil && m.Operator != "" {
		f = f.With("moved_by", m.Operator).With("moved", m.Action)
	}
	return f
}

// pause stops the program.
func (s *session) pause(ctx context.Context, d Do) (Answer, error) {
	s.mu.Lock()
	status, deciding := s.status, s.deciding
	s.pausing = true
	s.mu.Unlock()
	switch status {
	case Stopped:
		return s.answer(ctx, d)
	case Running:
	default:
		return s.notStopped(ctx, d, status)
	}
	if deciding { // the program is stopped, and stays stopped
		s.mu.Lock()
		s.move(d)
		s.mu.Unlock()
		return s.await(ctx, d)
	}
	thread := d.ThreadID
	if thread == 0 {
		thread = s.firstThread(ctx)
	}
	// Before the request, so that the answer to an agent that waits for the stop names the operator.
	s.mu.Lock()
	undo := s.move(d)
	s.mu.Unlock()
	if err := s.call(ctx, "pause", threadArguments{thread}, nil); err != nil {
		s.mu.Lock()
		undo()
		s.mu.Unlock()
		return Answer{}, err
	}
	return s.await(ctx, d)
}

// firstThread returns a thread of a program that stopped without naming one, 0 if it is unknown.
func (s *session) firstThread(ctx context.Context) int {
	var body godap.ThreadsResponseBody
	if s.call(ctx, "threads", nil, &body) != nil || len(body.Threads) == 0 {
		return 0
	}
	return body.Threads[0].Id
}

// await waits until the program does not run, or for a time limit, and returns its state.
func (s *session) await(ctx context.Context, d Do) (Answer, error) {
	limit := d.Timeout
	if limit <= 0 {
		limit = s.pool.opts.Timeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		status, changed := s.status, s.changed
		s.mu.Unlock()
		if status != Running && status != starting {
			return s.answer(ctx, d)
		}
		select {
		case <-changed:
		case <-timer.C:
			return s.answer(ctx, d)
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}
}

// answer returns the state: for the agent with the new output, for an operator without.
func (s *session) answer(ctx context.Context, d Do) (Answer, error) {
	if d.Operator != "" {
		return s.look(ctx, true)
	}
	return s.state(ctx, d.Action == 0 || d.Action == Pause)
}

// state returns the state of the program and its output since the last answer. It fails with dap_session_ended.
func (s *session) state(ctx context.Context, threads bool) (Answer, error) {
	a, err := s.look(ctx, threads)
	if err == nil {
		a.Output = s.output.next(s.pool.opts.ShownBytes)
	}
	return a, err
}

// look returns the state of the program. The threads of a stopped program are included only if threads is true, because
// a program may have thousands; those of a running one always. It fails with dap_session_ended.
func (s *session) look(ctx context.Context, threads bool) (Answer, error) {
	s.mu.Lock()
	status, stop, epoch := s.status, s.stop, s.epoch
	s.mu.Unlock()
	a := Answer{ID: s.start.ID, Status: status}
	switch status {
	case ended:
		<-s.finished
		return a, s.gone()
	case Exited:
		<-s.finished          // the last of the output precedes it
		if s.killed() != "" { // the adapter may report the program's end before the same limit ends it
			return a, s.gone()
		}
		s.mu.Lock()
		a.ExitCode = s.exitCode
		s.mu.Unlock()
	case Stopped:
		a.Reason, a.Text, a.Thread = stop.Reason, s.cut(firstText(stop.Text, stop.Description)), stop.ThreadId
		if frames, _, err := s.frames(ctx, stop.ThreadId, 0, 1); err == nil && len(frames) > 0 {
			a.Location = &frames[0]
		}
		a.BreakpointID = s.hit(stop, a.Location, epoch)
		if threads {
			a.Threads, _ = s.threads(ctx)
		}
		s.mu.Lock()
		moved := s.epoch != epoch
		s.mu.Unlock()
		if moved { // the program continued while its state was read
			return s.look(ctx, threads)
		}
	default:
		a.Status = Running
		a.Threads, _ = s.threads(ctx)
	}
	return a, nil
}

func firstText(list ...string) string {
	for _, text := range list {
		if text != "" {
			return text
		}
	}
	return ""
}

// isHit reports whether a stop is at a breakpoint; at is the position of the stop, nil if unknown.
func (b *Breakpoint) isHit(stop godap.StoppedEventBody, at *Frame) bool {
	if len(stop.HitBreakpointIds) > 0 {
		return b.adapter != 0 && slices.Contains(stop.HitBreakpointIds, b.adapter)
	}
	return stop.Reason == "breakpoint" && at != nil && b.Kind == kindLine && b.Path == at.Path && b.Actual == at.Line
}

// hit returns the id of the breakpoint at which the program is stopped, 0 for none, and records the hit once.
func (s *session) hit(stop godap.StoppedEventBody, at *Frame, epoch int) int {
	s.mu.Lock()
	var found *Breakpoint
	for _, b := range s.points {
		if !b.temporary && b.isHit(stop, at) {
			found = b
		}
	}
	if found == nil {
		s.mu.Unlock()
		return 0
	}
	id, path, line := found.ID, found.Path, found.Actual
	record := !s.told && s.epoch == epoch
	if record {
		s.told = true
	}
	s.mu.Unlock()
	if record {
		if at != nil {
			path, line = at.Path, at.Line
		}
		s.record(recordHit, map[string]any{
			"debug_session_id": s.start.ID, "breakpoint_id": id, "path": s.relative(path), "line": line,
		})
	}
	return id
}

// Do executes an action. It fails with dap_session_ended, with conflict while the program runs, with dap_request_failed
// and with invalid_params.
func (p *Pool) Do(ctx context.Context, d Do) (Answer, error) {
	s, err := p.find(d.key(), d.SessionID)
	if err != nil {
		return Answer{}, err
	}
	select {
	case <-s.begun:
	default:
		return Answer{}, s.busy()
	}
	return p.carry(s, func() (Answer, error) {
		defer s.act()()
		return s.do(ctx, d)
	})
}

// act marks an action of the agent as in progress until over is called.
func (s *session) act() (over func()) {
	s.mu.Lock()
	s.acting++
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.acting--
		s.mu.Unlock()
		s.pool.watchers.wake(s)
	}
}

func (s *session) do(ctx context.Context, d Do) (Answer, error) {
	switch d.Action {
	case StepInto:
		return s.resume(ctx, d, "stepIn")
	case StepOver:
		return s.resume(ctx, d, "next")
	case StepOut:
		return s.resume(ctx, d, "stepOut")
	case Continue:
		return s.resume(ctx, d, "continue")
	case Pause:
		return s.pause(ctx, d)
	case Disconnect:
		return s.disconnect(d)
	}
	s.mu.Lock()
	status := s.status
	s.mu.Unlock()
	if status == Exited || status == ended {
		return Answer{}, s.gone()
	}
	switch d.Action {
	case SetBreakpoint, RemoveBreakpoint, ListBreakpoints, SetInstructionBreakpoint, RemoveInstructionBreakpoint,
		SetDataBreakpoint, RemoveDataBreakpoint:
		return s.breakpoints(ctx, d)
	case Threads:
		threads, err := s.threads(ctx)
		return Answer{Threads: threads}, err
	case Modules, LoadedSources:
		return s.parts(ctx, d)
	case CustomRequest:
		return s.custom(ctx, d)
	}
	if status != Stopped {
		return Answer{}, s.busy()
	}
	return s.inspect(ctx, d)
}

// disconnect ends the session.
func (s *session) disconnect(d Do) (Answer, error) {
	if s.over() {
		<-s.finished
		return Answer{}, s.gone()
	}
	// The end of an adapter ends everything it started: a program that was launched does not outlive it.
	terminate := d.Terminate || s.start.Request == Launch
	s.end(endedByAgent, terminate)
	return Answer{Terminated: terminate, Output: s.output.next(s.pool.opts.ShownBytes)}, nil
}

// custom sends a request by its name.
func (s *session) custom(ctx context.Context, d Do) (Answer, error) {
	arguments := json.RawMessage("{}")
	if d.Arguments != "" {
		arguments = json.RawMessage(d.Arguments)
	}
	var body json.RawMessage
	if err := s.call(ctx, d.Command, arguments, &body); err != nil {
		return Answer{}, err
	}
	if len(body) > s.pool.opts.ShownBytes {
		return Answer{}, fault.New(fault.DapRequestFailed, "The answer to %.80s has %d bytes; at most %d are shown.",
			d.Command, len(body), s.pool.opts.ShownBytes)
	}
	return Answer{JSON: string(body)}, nil
}

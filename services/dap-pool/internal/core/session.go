package core

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/services/dap-pool/internal/dap"
)

// The reasons of debug.session_ended.
const (
	endedByAgent = contract.DebugDisconnect
	endedByCrash = contract.DebugCrash
	endedByRun   = contract.DebugRunEnded
)

// The records of sessions.
const (
	recordStarted = "debug.session_started"
	recordEnded   = "debug.session_ended"
	recordHit     = "debug.breakpoint_hit"
)

// session is a debug session.
type session struct {
	pool    *Pool
	start   Start
	adapter *Adapter
	output  ring
	began   time.Time

	// These fields are set before begun is closed. A session that failed to start may lack all of them.
	process Process
	client  *dap.Client
	caps    godap.Capabilities
	spec    Spec          // the specification of the adapter
	port    int           // the port at which the adapter listens, 0 for its standard files
	opened  chan struct{} // closed when the fields above are set, or the start of the adapter has failed
	pumped  chan struct{} // closed when the last output of an adapter at a port is stored

	begun       chan struct{} // closed when the start has succeeded or failed
	stopBegin   func()        // cancels the start
	initialized chan struct{} // closed by the first event initialized
	finished    chan struct{} // closed when the session is over and all its processes have ended
	ending      sync.Once
	changing    sync.Mutex // held during changes of sets of breakpoints

	mu         sync.Mutex // guards the fields below
	status     Status
	stop       godap.StoppedEventBody
	epoch      int // the number of continuations and stops
	top        topFrame
	exitCode   *int
	reason     string // the reason of the end
	configured bool
	leaving    bool          // kaged ends the program from here on, so its exit code has no meaning
	changed    chan struct{} // closed and replaced at each change of status
	points     []*Breakpoint
	lastPoint  int
	exceptions []string
	records    []contract.Record
	told       bool // the stop is recorded
	acting     int  // the number of the agent's actions in progress
	moved      *contract.DebugMove
	moves      []contract.DebugMove // moves by operators that no answer has returned
	deciding   bool                 // the program is stopped at a breakpoint that the pool emulates
	pausing    bool                 // the agent has requested a pause
	stepping   bool                 // the program runs for a step
	started    []*child             // requests go to the last one
	terminals  []Process            // programs that the adapter wanted to run in terminals
}

func newSession(p *Pool, start Start, adapter *Adapter) *session {
	return &session{
		begun: make(chan struct{}), opened: make(chan struct{}), stopBegin: func() {},
		pool: p, start: start, adapter: adapter, output: ring{most: p.opts.OutputBytes}, began: time.Now(),
		initialized: make(chan struct{}), finished: make(chan struct{}), changed: make(chan struct{}), status: starting,
	}
}

// over reports whether the program or its adapter has ended.
func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status == Exited || s.status == ended
}

// info returns the session in the form for people.
func (s *session) info() contract.DebugSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := contract.DebugSession{
		ID: s.start.ID, Runtime: s.start.Runtime, Program: s.program(), Owner: s.start.Owner, Invocation: s.start.Invocation,
		Status: string(s.status), Caged: s.start.caged(), StartedAt: s.began.UnixMilli(),
	}
	select {
	case <-s.begun:
		if s.process != nil {
			info.PID = s.process.PID()
		}
	default:
	}
	return info
}

// set changes the status and wakes waiters. s.mu is held.
func (s *session) set(status Status) {
	s.status = status
	s.epoch++
	close(s.changed)
	s.changed = make(chan struct{})
	s.pool.watchers.wake(s)
}

// event handles an event of the adapter.
func (s *session) event(name string, raw json.RawMessage) {
	switch name {
	case "initialized":
		s.ready()
	case "stopped":
		var body godap.StoppedEventBody
		if json.Unmarshal(raw, &body) == nil {
			s.stopped(body)
		}
	case "continued":
		s.mu.Lock()
		if s.status == Stopped {
			s.set(Running)
		}
		s.mu.Unlock()
	case "exited":
		var body godap.ExitedEventBody
		if json.Unmarshal(raw, &body) == nil {
			s.exited(&body.ExitCode)
		}
	case "terminated":
		s.exited(nil)
	case "output":
		var body godap.OutputEventBody
		if json.Unmarshal(raw, &body) == nil && body.Category != "telemetry" {
			s.wrote([]byte(body.Output))
		}
	case "breakpoint":
		var body godap.BreakpointEventBody
		if json.Unmarshal(raw, &body) == nil {
			s.mu.Lock()
			for _, b := range s.points {
				if b.adapter != 0 && b.adapter == body.Breakpoint.Id {
					b.take(body.Breakpoint)
				}
			}
			s.mu.Unlock()
		}
	case "capabilities":
		var body godap.CapabilitiesEventBody
		_ = json.Unmarshal(raw, &body) // they keep the adapter's first values
	}
}

// wrote stores output of the program.
func (s *session) wrote(data []byte) {
	s.output.write(data)
	s.pool.watchers.wake(s)
}

// ready records that the adapter accepts breakpoints. A repeated event means that the adapter has lost them.
func (s *session) ready() {
	s.mu.Lock()
	again := s.configured
	s.mu.Unlock()
	if again {
		s.pool.wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.pool.opts.RequestTimeout)
			defer cancel()
			s.rebind(ctx)
		})
		return
	}
	select {
	case <-s.initialized:
	default:
		close(s.initialized)
	}
}

// stopped handles a stop.
func (s *session) stopped(body godap.StoppedEventBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deliberates(body) && !s.leaving {
		s.deciding = true
		s.pool.wg.Go(func() { s.decide(body) })
		return
	}
	s.halt(body)
}

// halt publishes a stop. s.mu is held.
func (s *session) halt(body godap.StoppedEventBody) {
	if s.status == Exited || s.status == ended {
		return
	}
	s.stop, s.told, s.pausing = body, false, false
	s.set(Stopped)
}

// exited records that the program has ended with a code, or, without one, that the adapter has ended the debugging.
func (s *session) exited(code *int) {
	s.mu.Lock()
	if s.leaving {
		s.mu.Unlock()
		return
	}
	first := s.status != Exited && s.status != ended
	if code != nil && s.exitCode == nil {
		s.exitCode = code
	}
	reason := endedByCrash
	if s.exitCode != nil {
		reason = endedByAgent
		if first {
			s.set(Exited)
		}
	}
	s.mu.Unlock()
	s.pool.wg.Go(func() { s.end(reason, false) })
}

// watch ends the session when its adapter has ended.
func (s *session) watch() {
	<-s.client.Done()
	<-s.begun // a start notices the end itself, and has the reason
	reason := endedByCrash
	s.mu.Lock()
	if s.status == Exited {
		reason = endedByAgent
	}
	s.mu.Unlock()
	s.end(reason, false)
}

// end ends the session, its adapter and, if terminate is true, its program, and returns when they have ended.
func (s *session) end(reason string, terminate bool) {
	s.ending.Do(func() {
		defer func() {
			close(s.finished)
			s.pool.watchers.wake(s)
		}()
		defer s.pool.left()
		s.stopBegin()
		<-s.begun
		s.mu.Lock()
		s.leaving = true
		s.mu.Unlock()
		if s.adapter.Inspector != nil && s.process != nil {
			_ = s.process.Close() // before the inspector, because its end would continue the program
		}
		if s.client != nil {
			s.leave(terminate)
		}
		if s.process != nil {
			_ = s.process.Close()
		}
		s.leaveChildren()
		if s.pumped != nil {
			<-s.pumped
		}
		s.sweep()
		s.mu.Lock()
		s.reason = reason
		began := s.configured
		if s.status != Exited {
			s.set(ended)
		} else {
			s.set(Exited)
		}
		s.mu.Unlock()
		if began {
			s.record(recordEnded, map[string]any{"debug_session_id": s.start.ID, "reason": reason})
		}
	})
	<-s.finished
}

// sweepTimeout is the time limit for the removal of files that the adapter left.
const sweepTimeout = 2 * time.Second

// sweep removes the files that a killed adapter leaves in the folder of temporary files: its own, and old ones of pools
// that were killed. A cage's folder is removed with the cage.
func (s *session) sweep() {
	if s.adapter.Leaves == "" || s.start.caged() || s.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	removal, err := s.pool.launcher.Launch(ctx, Spec{
		Owner: s.start.Owner, Root: s.start.Root, Dir: s.start.Root, Env: s.start.Env, Stderr: func([]byte) {},
		Argv: []string{
			"find", s.start.temporary(), "-maxdepth", "1", "-name", s.adapter.Leaves + "dap_*",
			"(", "-name", s.adapter.Leaves + s.start.ID, "-o", "-mtime", "+1", ")", "-delete",
		},
	})
	if err != nil {
		s.pool.log.Warn("files of a debug adapter may be left", "debug_session_id", s.start.ID, "error", err)
		return
	}
	select {
	case <-removal.Ended():
	case <-ctx.Done():
	}
	_ = removal.Close() // it has ended, or is being ended
}

// leave requests that the adapter exits, and waits for it up to a limit.
func (s *session) leave(terminate bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.pool.opts.StopGrace)
	defer cancel()
	// The fields have no omitempty, because an adapter's default depends on the request that started the session.
	arguments := struct {
		TerminateDebuggee bool `json:"terminateDebuggee"`
	}{terminate}
	if s.client.Call(ctx, "disconnect", arguments, nil) == nil && s.process != nil {
		select {
		case <-s.process.Ended():
		case <-s.client.Done():
			select { // an adapter that has closed the connection exits soon
			case <-s.process.Ended():
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	}
	s.client.Close()
}

// record adds a record about the session.
func (s *session) record(event string, fields map[string]any) {
	o := s.start.Owner
	fields["session_id"], fields["run_id"], fields["caller"] = o.SessionID, o.RunID, o.Agent
	if s.start.Invocation != "" {
		fields["invocation_id"] = s.start.Invocation
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) < maxRecords {
		s.records = append(s.records, contract.NewRecord(event, o.Agent, fields))
	}
}

// maxRecords is the maximum number of records of a session that no answer has returned.
const maxRecords = 256

func (s *session) takeRecords() []contract.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := s.records
	s.records = nil
	return records
}

// relative returns a path in the form for records.
func (s *session) relative(path string) string {
	if rel, err := filepath.Rel(s.start.Root, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// program returns the debugged program in the form for people, "" for an attached one.
func (s *session) program() string {
	if s.start.Request == Attach {
		return ""
	}
	return s.relative(s.start.Program)
}

// gone is the error of actions on a session that is over.
func (s *session) gone() error {
	s.mu.Lock()
	reason, code := s.reason, s.exitCode
	s.mu.Unlock()
	text := "The debug session has ended; begin another with the action launch or attach."
	killed := s.killed()
	switch {
	case killed != "" && (code != nil || reason == endedByCrash):
		text = killed
	case code != nil:
		text = "The program has exited; begin another debug session with the action launch."
	case reason == endedByCrash:
		text = "The debug adapter has ended; begin another debug session with the action launch or attach."
	}
	f := fault.New(fault.DapSessionEnded, "%s", text).With("debug_session_id", s.start.ID)
	if code != nil {
		f = f.With("exit_code", *code)
	}
	if tail := s.output.tail(tailBytes); tail != "" && code == nil {
		f = f.With("output", tail)
	}
	return f
}

// killed names the limit of the cage that ended the adapter and its program, "" if it was no limit.
func (s *session) killed() string {
	if s.process == nil {
		return ""
	}
	select {
	case <-s.process.Ended():
		return sandbox.Explain(s.process.Killed(), s.start.Cage)
	default:
		return ""
	}
}

// tailBytes is the maximum size of the output in an error.
const tailBytes = 2 << 10

// failed turns an error of a request into an error of the pool.
func (s *session) failed(ctx context.Context, err error) error {
	var refused *dap.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		text := strings.TrimSuffix(strings.TrimSpace(refused.Message), ".")
		return fault.New(fault.DapRequestFailed, "The debug adapter refuses %s: %s.", refused.Command, text).
			With("command", refused.Command)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "The debug adapter has not answered within %s.", s.pool.opts.RequestTimeout)
	}
	select {
	case <-s.begun:
	default:
		return err // the end waits for the start, which has the reason
	}
	<-s.finished
	return s.gone()
}

// call sends a request with a time limit.
func (s *session) call(ctx context.Context, command string, arguments, body any) error {
	bounded, cancel := context.WithTimeout(ctx, s.pool.opts.RequestTimeout)
	defer cancel()
	return s.failed(ctx, s.to().Call(bounded, command, arguments, body))
}

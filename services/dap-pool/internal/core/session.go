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

	// Set until begun is closed. A session that did not begin may lack all of them.
	process Process
	client  *dap.Client
	caps    godap.Capabilities
	spec    Spec          // of the adapter
	port    int           // where the adapter listens, 0 for its standard files
	opened  chan struct{} // closed when the fields above are set, or the adapter is not there
	pumped  chan struct{} // closed when the last output of an adapter at a port is kept

	begun       chan struct{} // closed when the session has begun, or has not
	stopBegin   func()        // ends the beginning
	initialized chan struct{} // closed by the first event of this name
	finished    chan struct{} // closed when the session is over, with all its processes
	ending      sync.Once
	changing    sync.Mutex // held while sets of breakpoints are changed

	mu         sync.Mutex // guards the fields below
	status     Status
	stop       godap.StoppedEventBody
	epoch      int // counts resumptions and stops
	top        topFrame
	exitCode   *int
	reason     string // of the end
	configured bool
	leaving    bool          // what the program ends with from here on is not its own doing
	changed    chan struct{} // closed and replaced at each change of status
	points     []*Breakpoint
	lastPoint  int
	exceptions []string
	records    []contract.Record
	told       bool // the stop is recorded
	acting     int  // actions of the agent under way
	moved      *contract.DebugMove
	moves      []contract.DebugMove // by operators, that no answer has told
	deciding   bool                 // the program is stopped at a breakpoint that the pool emulates
	pausing    bool                 // the agent has asked for a pause
	stepping   bool                 // the program runs for a step
	started    []*child             // the one that requests go to is the last
	terminals  []Process            // programs that the adapter wanted in terminals
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

// info returns the session as people see it.
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

// event takes note of an event of the adapter.
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
		_ = json.Unmarshal(raw, &body) // they are as the adapter first said
	}
}

// wrote keeps output of the program.
func (s *session) wrote(data []byte) {
	s.output.write(data)
	s.pool.watchers.wake(s)
}

// ready takes note that the adapter takes breakpoints, or, said again, that it has forgotten them.
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

// stopped takes note of a stop.
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

// halt makes a stop known. s.mu is held.
func (s *session) halt(body godap.StoppedEventBody) {
	if s.status == Exited || s.status == ended {
		return
	}
	s.stop, s.told, s.pausing = body, false, false
	s.set(Stopped)
}

// exited takes note that the program has ended, with a code, or that the adapter says that debugging is over.
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

// watch ends the session when its adapter is gone.
func (s *session) watch() {
	<-s.client.Done()
	<-s.begun // a beginning sees the end by itself, and says why it failed
	reason := endedByCrash
	s.mu.Lock()
	if s.status == Exited {
		reason = endedByAgent
	}
	s.mu.Unlock()
	s.end(reason, false)
}

// end ends the session, its adapter and, if terminate, its program, and returns when they are gone.
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
			_ = s.process.Close() // ahead of the inspector, whose end would let the program run on
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

// sweepTimeout is how long the removal of left files may take.
const sweepTimeout = 2 * time.Second

// sweep removes the files that a killed adapter leaves in the folder of temporary files: its own, and old ones of
// pools that were killed themselves. A cage's folder goes with the cage.
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
	_ = removal.Close() // it has ended, or is ended
}

// leave asks the adapter to end and gives it a little time.
func (s *session) leave(terminate bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.pool.opts.StopGrace)
	defer cancel()
	// Without omitempty: an adapter's default depends on the request that began the session.
	arguments := struct {
		TerminateDebuggee bool `json:"terminateDebuggee"`
	}{terminate}
	if s.client.Call(ctx, "disconnect", arguments, nil) == nil && s.process != nil {
		select {
		case <-s.process.Ended():
		case <-s.client.Done():
			select { // an adapter that has closed the connection is about to end
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

// maxRecords bounds the records of a session that no answer has carried.
const maxRecords = 256

func (s *session) takeRecords() []contract.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := s.records
	s.records = nil
	return records
}

// relative returns a path as records show it.
func (s *session) relative(path string) string {
	if rel, err := filepath.Rel(s.start.Root, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// program returns the debugged program as people see it, "" for one that was attached to.
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
	switch {
	case code != nil:
		text = "The program has exited; begin another debug session with the action launch."
	case reason == endedByCrash:
		text = "The debug adapter has ended; begin another debug session with the action launch or attach."
		if killed := s.killed(); killed != "" {
			text = killed
		}
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

// killed says which limit of the cage ended the adapter and its program, "" for none.
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

// tailBytes bounds the output in an error.
const tailBytes = 2 << 10

// failed turns an error of a request into one of the pool.
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
		return err // the end waits for the beginning, which says why it failed
	}
	<-s.finished
	return s.gone()
}

// call makes a request, bounded.
func (s *session) call(ctx context.Context, command string, arguments, body any) error {
	bounded, cancel := context.WithTimeout(ctx, s.pool.opts.RequestTimeout)
	defer cancel()
	return s.failed(ctx, s.to().Call(bounded, command, arguments, body))
}

package core

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Options are the limits of the pool.
type Options struct {
	// Adapters is the catalogue.
	Adapters []*Adapter
	// PerAgent is the maximum number of simultaneous sessions of an agent, Sessions the maximum number of all sessions.
	PerAgent, Sessions int
	// StartTimeout limits the handshake and the build of a program, RequestTimeout an answer of the adapter. Timeout is
	// the default time to wait for a stop, StopGrace the time between the request to exit and the kill.
	StartTimeout, RequestTimeout, Timeout, StopGrace time.Duration
	// MessageBytes is the maximum size of a message of an adapter, OutputBytes of the stored output of a program,
	// ShownBytes of the output in one answer, ValueBytes of one value.
	MessageBytes, OutputBytes, ShownBytes, ValueBytes int
	// Items is the maximum length of a list in an answer, Breakpoints the maximum number of breakpoints of a session.
	Items, Breakpoints int
	// NoSandbox is true if cages are switched off.
	NoSandbox bool
}

// Pool holds debug sessions. It is safe for concurrent use.
type Pool struct {
	opts     Options
	launcher Launcher
	log      *slog.Logger
	newID    func() string
	wg       sync.WaitGroup // the goroutines of sessions
	watchers watchers

	mu       sync.Mutex // guards the fields below
	sessions map[key][]*session
	owed     map[key][]contract.Record // records of removed sessions that no answer has returned
	count    int                       // the number of sessions that are not over
	closed   bool
}

// New returns a pool without sessions. newID creates the ids of sessions.
func New(opts Options, launcher Launcher, newID func() string, log *slog.Logger) *Pool {
	return &Pool{
		opts: opts, launcher: launcher, newID: newID, log: log, sessions: map[key][]*session{},
		owed: map[key][]contract.Record{},
	}
}

// Run waits for the end of ctx, then ends all sessions and returns when they have ended.
func (p *Pool) Run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.endAll(func(*session) bool { return true }, endedByRun)
	p.wg.Wait()
	return nil
}

// endAll ends the sessions that match selects in parallel, and returns them when they are over.
func (p *Pool) endAll(match func(*session) bool, reason string) []*session {
	var list []*session
	p.mu.Lock()
	for _, of := range p.sessions {
		for _, s := range of {
			if match(s) {
				list = append(list, s)
			}
		}
	}
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range list {
		ending.Go(func() { s.end(reason, s.start.Request == Launch) })
	}
	ending.Wait()
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.start.ID, b.start.ID) })
	return list
}

// EndRun ends the sessions of a run, or of all runs of a session for an empty run, and removes them. It returns the
// records that no answer has returned. The run of an agent inside a run ends with that run.
func (p *Pool) EndRun(owner, run string) []contract.Record {
	of := func(s *session) bool {
		return s.start.Owner.SessionID == owner && (run == "" || s.start.Owner.RunID == run)
	}
	var records []contract.Record
	for _, s := range p.endAll(of, endedByRun) {
		records = append(records, s.takeRecords()...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, list := range p.sessions {
		p.keep(k, slices.DeleteFunc(list, of))
	}
	for k, owed := range p.owed {
		if k.session == owner && (run == "" || k.run == run) {
			records = append(owed, records...)
			delete(p.owed, k)
		}
	}
	return records
}

// owe stores records for the agent's next answer.
func (p *Pool) owe(k key, records []contract.Record) {
	if len(records) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if owed := append(p.owed[k], records...); len(owed) <= maxRecords {
		p.owed[k] = owed
	}
}

// settle returns the records stored for an agent.
func (p *Pool) settle(k key) []contract.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	owed := p.owed[k]
	delete(p.owed, k)
	return owed
}

// keep sets the sessions of an agent. p.mu is held.
func (p *Pool) keep(k key, list []*session) {
	if len(list) == 0 {
		delete(p.sessions, k)
		return
	}
	p.sessions[k] = list
}

// add adds a session and removes those sessions of the agent that are over. It fails with conflict, with rate_limited
// and with unavailable.
func (p *Pool) add(s *session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fault.New(fault.Unavailable, "The debug pool is stopping.").With("subsystem", "dap-pool")
	}
	k := s.start.key()
	var live []*session
	for _, other := range p.sessions[k] {
		if other.over() {
			p.owed[k] = append(p.owed[k], other.takeRecords()...)
			continue
		}
		live = append(live, other)
	}
	p.keep(k, live)
	if len(live) >= p.opts.PerAgent {
		return fault.New(fault.Conflict, "The debug session %s is active; disconnect it first.", live[0].start.ID).
			With("reason", "debug_session_active").With("debug_session_id", live[0].start.ID)
	}
	if p.count >= p.opts.Sessions {
		return fault.New(fault.RateLimited, "There are %d debug sessions already, the most there may be at once.", p.count).
			With("retry_after_ms", 1000)
	}
	p.count++
	p.sessions[k] = append(live, s)
	return nil
}

// left records that a session is over.
func (p *Pool) left() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
}

// forget removes a session that failed to start.
func (p *Pool) forget(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := s.start.key()
	p.keep(k, slices.DeleteFunc(p.sessions[k], func(o *session) bool { return o == s }))
}

// find returns a session of an agent: the session with the id, or else the last active one, or else the last one. It
// fails with dap_session_ended.
func (p *Pool) find(k key, id string) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.sessions[k]
	for _, s := range slices.Backward(list) {
		if id == s.start.ID || id == "" && !s.over() {
			return s, nil
		}
	}
	if id == "" && len(list) > 0 {
		return list[len(list)-1], nil
	}
	return nil, fault.New(fault.DapSessionEnded, "There is no debug session; begin one with the action launch or attach.")
}

// pick returns the sessions that match selects, the oldest first.
func (p *Pool) pick(match func(k key) bool) []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*session
	for k, some := range p.sessions {
		if match(k) {
			list = append(list, some...)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.start.ID, b.start.ID) })
	return list
}

// Sessions returns the sessions of a kaged session, or all sessions for "", the oldest first.
func (p *Pool) Sessions(of string) []contract.DebugSession {
	infos := []contract.DebugSession{}
	for _, s := range p.pick(func(k key) bool { return of == "" || k.session == of }) {
		infos = append(infos, s.info())
	}
	return infos
}

// folderOf returns path if it is a folder, and otherwise the folder of the file.
func folderOf(path string, folder bool) string {
	if folder {
		return path
	}
	return filepath.Dir(path)
}

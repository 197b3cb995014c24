package processes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/sandbox"
)

// Options are the limits of the table.
type Options struct {
	// Dir is the folder of the tables, empty for no folder. A table that is unchanged for KeptFor is removed at
	// the next start.
	Dir     string
	KeptFor time.Duration
	// Ended is the maximum number of remembered ended processes per session, Sessions the maximum number of sessions in
	// memory.
	Ended, Sessions int
	// Patience is the time limit for an answer of the host.
	Patience time.Duration
}

// Table is the process table. It is safe for concurrent use.
type Table struct {
	host  sandbox.Background
	opts  Options
	store store

	mu       sync.Mutex // guards sessions and their use counts
	sessions map[string]*session

	pendingMu sync.Mutex      // guards pending; locked last
	pending   map[string]bool // sessions with a running process, or with an unreported end
}

// session is one session's part of the table. At most one instance exists at a time: an instance is dropped only while
// unused.
type session struct {
	id    string
	users int
	used  time.Time

	mu     sync.Mutex // guards the fields below
	loaded bool
	list   []*entry // in the order they were started
}

// entry is a process, with facts that only this kaged process knows.
type entry struct {
	Process
	starting bool  // the start is in progress, so a process unknown to the host is not lost
	read     int64 // the number of the byte up to which polls have returned the output
}

// New returns the table of the processes of host.
func New(host sandbox.Background, log *slog.Logger, opts Options) *Table {
	return &Table{
		host: host, opts: opts, store: store{opts.Dir, log}, sessions: map[string]*session{}, pending: map[string]bool{},
	}
}

// Open removes the tables that are unchanged for long, and finds those with processes with unknown or unreported ends.
func (t *Table) Open() {
	t.store.sweep(t.opts.KeptFor)
	for _, id := range t.store.pending() {
		t.mark(id, true)
	}
}

// Start records a process and starts it. The table sets those fields of p that it determines itself. If the call has
// already started a process, Start returns that process. Start fails as [sandbox.Background.Start] does; then no
// process runs and the table has no entry.
func (t *Table) Start(ctx context.Context, p Process, spec sandbox.Spec) (Process, error) {
	s := t.open(p.Session)
	defer t.close(s)
	p.ID, p.StartedAt, p.Status = ident.New(), time.Now().UnixMilli(), Running
	e := &entry{Process: p, starting: true}
	s.mu.Lock()
	i := slices.IndexFunc(s.list, func(old *entry) bool { return old.Call == p.Call && old.Agent == p.Agent })
	if i >= 0 {
		known := t.tell(s, s.list[i])
		s.mu.Unlock()
		return known, nil
	}
	s.list = append(s.list, e)
	t.save(s)
	s.mu.Unlock()

	crash.At(crash.ProcessNoted)
	bounded, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	err := late(ctx, t.host.Start(bounded, p.ID, spec))
	if err != nil {
		t.undo(ctx, p.ID)
	} else {
		crash.At(crash.ProcessStarted)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.starting = false
	if err != nil {
		s.list = slices.DeleteFunc(s.list, func(old *entry) bool { return old == e })
		t.save(s)
		return Process{}, err
	}
	return e.Process, nil
}

// undo ends a process that may run although its start failed, because its caller does not get its id.
func (t *Table) undo(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Patience)
	defer cancel()
	if _, err := t.host.End(ctx, id); err != nil && !errors.Is(err, fault.ProcessNotFound) {
		t.store.log.Warn(
			"a background process whose start failed may run until its session ends",
			"process",
			id,
			"error",
			err,
		)
	}
}

// List returns the processes of a session that an agent may see, in the order they were started. It fails with
// unavailable.
func (t *Table) List(ctx context.Context, sessionID, agent string) ([]Process, error) {
	s := t.open(sessionID)
	defer t.close(s)
	if err := t.refresh(ctx, s); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Process{}
	for _, e := range slices.Clone(s.list) { // a report about one process may remove another
		if e.visible(agent) {
			list = append(list, t.tell(s, e))
		}
	}
	return list, nil
}

// Signal sends a signal; see [sandbox.Background]. It fails with process_not_found, process_ended and unavailable.
func (t *Table) Signal(ctx context.Context, sessionID, agent, id, name string) error {
	return t.reach(ctx, sessionID, agent, id, func(ctx context.Context) error { return t.host.Signal(ctx, id, name) })
}

// Input writes to the standard input and, if end is true, closes it; see [sandbox.Background]. It fails as Signal does.
func (t *Table) Input(ctx context.Context, sessionID, agent, id string, data []byte, end bool) error {
	return t.reach(ctx, sessionID, agent, id, func(ctx context.Context) error { return t.host.Input(ctx, id, data, end) })
}

// End ends a process and everything it started. An ended process is returned unchanged.
func (t *Table) End(ctx context.Context, sessionID, agent, id string) (Process, error) {
	s := t.open(sessionID)
	defer t.close(s)
	e, err := s.find(agent, id)
	if err != nil {
		return Process{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	known, err := t.host.End(bounded, id)
	return t.settle(s, e, known, late(ctx, err))
}

// EndSession ends the processes of a session and records their ends. Their output stays readable for a limited time.
// EndSession returns the processes with an unreported end. The ends stay unreported, so that a caller that missed the
// answer can ask again.
func (t *Table) EndSession(ctx context.Context, sessionID string, end func(context.Context) error) ([]Process, error) {
	if err := end(ctx); err != nil {
		return nil, err
	}
	s := t.open(sessionID)
	defer t.close(s)
	if err := t.refresh(ctx, s); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var news []Process
	for _, e := range s.list {
		if e.News {
			news = append(news, e.Process)
		}
	}
	return news, nil
}

// reach calls do for a running process.
func (t *Table) reach(ctx context.Context, sessionID, agent, id string, do func(context.Context) error) error {
	s := t.open(sessionID)
	defer t.close(s)
	e, err := s.find(agent, id)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	err = late(ctx, do(bounded))
	if !errors.Is(err, fault.ProcessNotFound) && !errors.Is(err, fault.ProcessEnded) {
		return err
	}
	known, err := t.attach(ctx, e, nothing, ignore)
	if err = t.learn(s, e, known, err); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fault.New(fault.ProcessEnded, "The process %s does not run any more.", id).
		With("process_id", id).
		With("status", string(e.Status))
}

// find returns a process that an agent may see.
func (s *session) find(agent, id string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(e *entry) bool { return e.ID == id })
	if i < 0 || !s.list[i].visible(agent) {
		return nil, fault.New(fault.ProcessNotFound, "There is no background process %.80q.", id).With("process_id", id)
	}
	return s.list[i], nil
}

// refresh asks the host for all processes of a session with an unknown end.
func (t *Table) refresh(ctx context.Context, s *session) error {
	s.mu.Lock()
	var asked []*entry
	running := false
	for _, e := range s.list {
		if !e.starting {
			asked = append(asked, e)
			running = running || e.Status == Running
		}
	}
	s.mu.Unlock()
	if !running {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	known, err := t.host.Processes(bounded, s.id)
	if err != nil {
		return late(ctx, err)
	}
	byID := make(map[string]contract.Process, len(known))
	for _, p := range known {
		byID[p.ID] = p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, e := range asked {
		p, ok := byID[e.ID]
		changed = e.learn(p, ok) || changed
	}
	if changed {
		t.save(s)
	}
	return nil
}

// settle records the host's answer about a process, and returns the process.
func (t *Table) settle(s *session, e *entry, known contract.Process, err error) (Process, error) {
	if err := t.learn(s, e, known, err); err != nil {
		return Process{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.tell(s, e), nil
}

// learn records the host's answer about a process: its state, or the error not_found for an unknown process. It returns
// other errors.
func (t *Table) learn(s *session, e *entry, known contract.Process, err error) error {
	unknown := errors.Is(err, fault.ProcessNotFound)
	if err != nil && !unknown {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if (!unknown || !e.starting) && e.learn(known, !unknown) {
		t.save(s)
	}
	return nil
}

// learn applies the host's state and reports whether the table has changed. The caller holds the
// session.
func (e *entry) learn(known contract.Process, isKnown bool) bool {
	if isKnown {
		e.Start, e.End = known.OutputStart, known.OutputEnd
	} else {
		e.Start = e.End // no byte of the output is kept
	}
	if e.Status != Running {
		return false
	}
	switch {
	case !isKnown:
		e.lose(time.Now())
	case known.Exit != nil:
		e.exit(*known.Exit, time.Now())
	}
	e.News = e.Status != Running
	return e.News
}

// tell returns a process in the form for readers. The first report of its end is marked as news. The caller holds the
// session.
func (t *Table) tell(s *session, e *entry) Process {
	p := e.Process
	p.Unread = e.unread()
	if e.News {
		e.News = false
		t.save(s)
	}
	return p
}

func (e *entry) unread() int64 { return max(0, e.End-max(e.Start, e.read)) }

// open returns a session's part of the table, read from its file if necessary. close ends the use.
func (t *Table) open(id string) *session {
	t.mu.Lock()
	s := t.sessions[id]
	if s == nil {
		t.makeRoom()
		s = &session{id: id}
		t.sessions[id] = s
	}
	s.users++
	s.used = time.Now()
	t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		s.loaded = true
		for _, p := range t.store.load(id) {
			s.list = append(s.list, &entry{Process: *p, read: p.Shown})
		}
	}
	return s
}

func (t *Table) close(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 && len(s.list) == 0 {
		delete(t.sessions, s.id)
	}
}

// makeRoom drops the least recently used session from memory if there are too many; its file stays. The caller holds
// t.mu.
func (t *Table) makeRoom() {
	if len(t.sessions) < t.opts.Sessions {
		return
	}
	var oldest *session
	for _, s := range t.sessions {
		if s.users == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if oldest != nil {
		delete(t.sessions, oldest.id)
	}
}

// save stores a session's table. If there are too many ended processes, save leaves out the oldest ones with reported
// ends. The caller holds the session.
func (t *Table) save(s *session) {
	ended := 0
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].Status == Running || s.list[i].News {
			continue
		}
		if ended++; ended > t.opts.Ended {
			s.list = slices.Delete(s.list, i, i+1)
		}
	}
	list := make([]*Process, 0, len(s.list))
	for _, e := range s.list {
		list = append(list, &e.Process)
	}
	t.mark(s.id, hasNews(list))
	t.store.save(s.id, list)
}

// late replaces the error of a host that exceeded its time limit by an error with that cause. The end of ctx is its own
// error.
func late(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, fault.DeadlineExceeded):
		return fault.Wrap(err, fault.Unavailable, "The sandbox supervisor does not answer.").
			With("subsystem", "sandbox-supervisor")
	}
	return err
}

package live

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// Store keeps sessions and their leases. A change is refused with stale_lease if its fence no longer stands. Where
// a failure leaves open whether a change was committed, its details hold commit_unknown; applying the same change
// again finds out.
type Store interface {
	lease.Store
	frames.Saver
	// Load returns a session's state for a new holder. It fails with not_found.
	Load(ctx context.Context, session string) (Loaded, error)
	// Apply applies a change. With again the change may have been applied by an earlier try, and then it has no
	// effect.
	Apply(ctx context.Context, f lease.Fence, c record.Change, again bool) error
	// Reserve judges a claim and stores its reservation if the call may be made. A claim that an earlier try stored is
	// allowed.
	Reserve(ctx context.Context, f lease.Fence, c record.Claim) (record.Verdict, error)
	// History returns the messages of a session in order, those after an ordinal.
	History(ctx context.Context, session string, after int64) ([]record.Message, error)
	// RelevantLedger returns the part of a session's ledger that a run is given.
	RelevantLedger(ctx context.Context, session string) (contract.Ledger, error)
	// Steps returns the stored steps in order of an invocation in a run, or of the root agent where that is "".
	Steps(ctx context.Context, run, invocation string) ([]transcript.Step, error)
	// Cut returns the invocations that a run was cut off in, with their steps, and those that answer some calls of
	// its root agent, the oldest first; and the usage of those that are over.
	Cut(ctx context.Context, run string, calls []string) ([]record.Invocation, record.Below, error)
	// Handed returns the rest of the state of a run that was handed over, calls being its open ones.
	Handed(ctx context.Context, run record.Run, calls []string) (record.Handed, error)
}

// Loaded is a session's state for a new holder.
type Loaded struct {
	Session record.Session
	// Run is the run that is pending or at work; it may be nil.
	Run *record.Run
	// Resume is a run that was cut off and is to go on in a new one; it may be nil.
	Resume *record.Run
	// Compactions are those between runs that the holder before left at work after it had paid for a model call.
	Compactions []CutCompaction
	// Tries is how many runs the message of either has had, itself included.
	Tries int
	// Stored are the noted numbers of the channels, Outbox the frames still to be published.
	Stored [frames.Channels]int64
	Outbox []frames.Durable
}

// CutCompaction is a compaction between runs that was cut off.
type CutCompaction struct{ ID, Agent string }

// Projects is the part of the registry of projects that sessions need.
type Projects interface {
	// Prepare gathers a run's inputs, as [projects.Service.Prepare] says.
	Prepare(ctx context.Context, pin projects.Pin) (projects.Inputs, error)
	// Stored returns the inputs of a run that need no workspace: the snapshot and the configuration.
	Stored(ctx context.Context, owner, hash string) (projects.Inputs, error)
	// Snapshot returns a snapshot by its hash.
	Snapshot(ctx context.Context, hash string) (*projects.Snapshot, error)
}

// Config bounds a Registry.
type Config struct {
	// LeaseTTL is how long a lease lives without being renewed.
	LeaseTTL time.Duration
	// UnloadAfter is how long an unused session stays live.
	UnloadAfter time.Duration
	// Sweep is how often runs without a holder are looked for.
	Sweep time.Duration
	// LoadTimeout bounds making a session live.
	LoadTimeout time.Duration
	// Settle is how long to try to find out whether a change with a lost answer was committed.
	Settle time.Duration
	// Buffer and Batch bound frames, as [frames.Config] says.
	Buffer, Batch int
	// Flush is how often the numbers of published frames are noted.
	Flush time.Duration
	// ResumeFor is how long to try to resume a run while its workspace or the harness is not there yet, as after a start.
	ResumeFor time.Duration
	// AdoptFor is how long a run that was handed over waits for its workspace and a harness before it ends.
	AdoptFor time.Duration
	// CutGrace is how long runs may take to store their end when the time to stop has come, Farewell how long the last
	// frames may take to be published.
	CutGrace, Farewell time.Duration
}

// Deps are a Registry's dependencies. Every field is required.
type Deps struct {
	Config
	Self     lease.Holder
	Store    Store
	Stream   frames.Stream
	Projects Projects
	Runs     runs.Deps
	// Draining returns the workspaces that are drained: runs there are handed over, and go on when it ends. It may be nil.
	Draining func(ctx context.Context) ([]string, error)
	// Told is told of each committed change of a session; it never waits.
	Told func(before, after record.Session, c record.Change)
	Log  *slog.Logger
}

// Registry holds the live sessions. It is safe for concurrent use.
type Registry struct {
	Deps
	ledger *frames.Ledger
	booted chan struct{}  // closed when leases of dead instances are given up
	work   sync.WaitGroup // loads, drops and resumptions under way
	ctx    context.Context
	stop   context.CancelFunc // ends loads and resumptions

	mu      sync.Mutex // guards the fields below and the registry's part of sessions
	entries map[string]*entry
	refuse  error // why no session can be acquired any more
}

// entry is a session in the registry: being loaded, live, or going.
type entry struct {
	loaded  chan struct{} // closed when session or err is set
	session *Session
	err     error
}

// NewRegistry returns a Registry. No session is live before [Registry.Run] has begun.
func NewRegistry(deps Deps) *Registry {
	g := &Registry{
		Deps: deps, ledger: frames.NewLedger(deps.Store, deps.Flush, deps.Log),
		booted: make(chan struct{}), entries: map[string]*entry{},
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// stopping is the answer while the process stops.
func stopping() error {
	return fault.New(fault.Unavailable, "kaged is stopping; try again shortly.").With("subsystem", "session-manager")
}

// Acquire makes a session live, which must exist, and keeps it so until release is called. It fails with
// stale_lease (details.holder) while another process holds it, with unavailable while the store is away or this
// process stops, and with ctx's error.
func (g *Registry) Acquire(ctx context.Context, id string) (s *Session, release func(), err error) {
	select {
	case <-g.booted:
	case <-g.ctx.Done():
		return nil, nil, stopping()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for {
		e, err := g.entry(id)
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-e.loaded:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if e.err != nil {
			return nil, nil, e.err
		}
		held, err := g.hold(e.session)
		if err != nil {
			return nil, nil, err
		}
		if held {
			return e.session, sync.OnceFunc(func() { g.release(e.session) }), nil
		}
		// It is going; when it has gone it can be loaded again.
		select {
		case <-e.session.gone:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// Live returns a session that is live already, as [Registry.Acquire] does, without waiting.
func (g *Registry) Live(id string) (s *Session, release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[id]
	if e == nil || e.session == nil || e.session.going || g.refuse != nil {
		return nil, nil, false
	}
	s = e.session
	s.users++
	return s, sync.OnceFunc(func() { g.release(s) }), true
}

// entry returns the session's entry, and begins to load a missing one.
func (g *Registry) entry(id string) (*entry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return nil, g.refuse
	}
	if e := g.entries[id]; e != nil {
		return e, nil
	}
	e := &entry{loaded: make(chan struct{})}
	g.entries[id] = e
	g.work.Go(func() {
		// The first caller may go away; others wait for the same load.
		ctx, cancel := context.WithTimeout(g.ctx, g.LoadTimeout)
		defer cancel()
		s, err := g.load(ctx, id, e)
		g.mu.Lock()
		defer g.mu.Unlock()
		e.session, e.err = s, err
		if err != nil && g.entries[id] == e {
			delete(g.entries, id)
		}
		close(e.loaded)
	})
	return e, nil
}

// hold keeps a session live, and reports false if it is going.
func (g *Registry) hold(s *Session) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return false, g.refuse
	}
	if s.going {
		return false, nil
	}
	s.users++
	return true, nil
}

func (g *Registry) release(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.users--
	s.idleSince = time.Now()
}

// claim begins to take a session out: from now on it cannot be acquired. It reports false if another goroutine has
// begun, or, unless it must go, if it is in use.
func (g *Registry) claim(s *Session, must bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.going || !must && s.users > 0 {
		return false
	}
	s.going = true
	return true
}

// forget ends taking sessions out.
func (g *Registry) forget(list ...*Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range list {
		if g.entries[s.ID] == s.entry {
			delete(g.entries, s.ID)
		}
		close(s.gone)
	}
}

// live returns the sessions that are loaded and not going.
func (g *Registry) live() []*Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*Session, 0, len(g.entries))
	for _, e := range g.entries {
		if e.session != nil && !e.session.going {
			list = append(list, e.session)
		}
	}
	return list
}

// Users returns how many use a session here; 0 for one that is not live.
func (g *Registry) Users(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[id]; e != nil && e.session != nil {
		return e.session.users
	}
	return 0
}

// Count returns how many sessions are live, being loaded or going.
func (g *Registry) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.entries)
}

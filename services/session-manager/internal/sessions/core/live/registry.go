package live

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

// Store stores sessions and their leases. A change with a replaced fence fails with stale_lease. If the outcome of
// a commit is unknown, the error's details hold commit_unknown; applying the same change again with again set
// resolves it.
type Store interface {
	lease.Store
	frames.Saver
	// Load returns a session's state for a new holder. If first is set, the session has never had a holder, and only its
	// row is read. It fails with not_found.
	Load(ctx context.Context, session string, first bool) (Loaded, error)
	// Apply applies a change. With again an earlier try may have applied the change already; then it has no effect.
	Apply(ctx context.Context, f lease.Fence, c record.Change, again bool) error
	// Reserve checks a claim against the budgets and stores its reservation if they allow it. A claim that an earlier
	// try stored is allowed.
	Reserve(ctx context.Context, f lease.Fence, c record.Claim) (record.Verdict, error)
	// History returns the messages of a session after an ordinal, in order.
	History(ctx context.Context, session string, after int64) ([]record.Message, error)
	// RelevantLedger returns the entries of a session's ledger that its runs receive.
	RelevantLedger(ctx context.Context, session string) (contract.Ledger, error)
	// Steps returns the stored steps, in order, of an invocation of a run, or of its root agent if invocation is "".
	Steps(ctx context.Context, run, invocation string) ([]transcript.Step, error)
	// Cut returns the open invocations of a run with their steps, and the ended ones that answer the given calls of
	// its root agent, oldest first; and the usage of all ended ones.
	Cut(ctx context.Context, run string, calls []string) ([]record.Invocation, record.Below, error)
	// Handed returns the rest of the state of a run that was handed over. calls are its open calls.
	Handed(ctx context.Context, run record.Run, calls []string) (record.Handed, error)
}

// Loaded is a session's state for a new holder.
type Loaded struct {
	Session record.Session
	// Run is the active run that the last holder left; it may be nil.
	Run *record.Run
	// Resume is an interrupted run that a new run is to continue; it may be nil.
	Resume *record.Run
	// Compactions are the unfinished compactions between runs whose model calls were reserved.
	Compactions []CutCompaction
	// Tries is the number of runs for the message of Run or Resume, including it.
	Tries int
	// Stored are the stored numbers of the channels, Outbox the unpublished durable frames.
	Stored [frames.Channels]int64
	Outbox []frames.Durable
}

// CutCompaction is a compaction between runs that was cut off.
type CutCompaction struct{ ID, Agent string }

// Projects is the part of the registry of projects that sessions need.
type Projects interface {
	// Prepare gathers a run's inputs; see [projects.Service.Prepare].
	Prepare(ctx context.Context, pin projects.Pin) (projects.Inputs, error)
	// Stored returns the inputs of a run without those of its workspace: the snapshot and the configuration.
	Stored(ctx context.Context, owner, hash string) (projects.Inputs, error)
	// Snapshot returns the snapshot with a hash.
	Snapshot(ctx context.Context, hash string) (*projects.Snapshot, error)
}

// Config bounds a Registry.
type Config struct {
	// LeaseTTL is the lifetime of a lease that is not renewed.
	LeaseTTL time.Duration
	// UnloadAfter is how long an unused session stays live.
	UnloadAfter time.Duration
	// Sweep is the interval of the search for runs without a holder.
	Sweep time.Duration
	// LoadTimeout bounds making a session live.
	LoadTimeout time.Duration
	// Settle bounds the retries that find out whether a change was committed.
	Settle time.Duration
	// Buffer and Batch bound frames, as [frames.Config] says.
	Buffer, Batch int
	// Flush is the interval at which the numbers of published frames are stored.
	Flush time.Duration
	// ResumeFor bounds the retries to resume a run while its workspace or the harness is unavailable, as after a
	// start.
	ResumeFor time.Duration
	// AdoptFor bounds the wait of a run that was handed over for its workspace and a harness; then it ends.
	AdoptFor time.Duration
	// CutGrace bounds the time that runs have to store their end when the process must stop, Farewell the time to
	// publish the last frames.
	CutGrace, Farewell time.Duration
}

// Deps are a Registry's dependencies. Every field but Draining is required.
type Deps struct {
	Config
	Self     lease.Holder
	Store    Store
	Stream   frames.Stream
	Projects Projects
	Runs     runs.Deps
	// Draining returns the names of the drained workspaces. Their runs are handed over and continue when the drain
	// ends. It may be nil.
	Draining func(ctx context.Context) ([]string, error)
	// Told is called with each committed change of a session. It must not block.
	Told func(before, after record.Session, c record.Change)
	Log  *slog.Logger
}

// Registry holds the live sessions. It is safe for concurrent use.
type Registry struct {
	Deps
	ledger  *frames.Ledger
	warming chan struct{}  // holds a token for each session being warmed
	booted  chan struct{}  // closed when the leases of dead instances are released
	work    sync.WaitGroup // loads, drops and resumptions in progress
	ctx     context.Context
	stop    context.CancelFunc // ends loads and resumptions

	kept atomic.Int64 // bytes of the cached conversations of all sessions

	mu      sync.Mutex // guards the fields below and the registry's part of sessions
	entries map[string]*entry
	away    map[string]bool // workspaces that drain
	refuse  error           // why no session can be acquired; nil while sessions can be
}

// entry is a session in the registry: being loaded, live, or being taken out.
type entry struct {
	loaded  chan struct{} // closed when session or err is set
	session *Session
	err     error
}

// NewRegistry returns a Registry. No session is live before [Registry.Run] has begun.
func NewRegistry(deps Deps) *Registry {
	g := &Registry{
		Deps: deps, ledger: frames.NewLedger(deps.Store, deps.Flush, deps.Log),
		warming: make(chan struct{}, maxWarming), booted: make(chan struct{}), entries: map[string]*entry{},
		away: map[string]bool{},
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// stopping is the error while the process stops.
func stopping() error {
	return fault.New(fault.Unavailable, "kaged is stopping; try again shortly.").With("subsystem", "session-manager")
}

// Acquire makes an existing session live and keeps it live until release is called. It fails with stale_lease
// (details.holder) while another process holds the session, with unavailable while the store is unreachable or this
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
		// It is being taken out; once it is gone it can be loaded again.
		select {
		case <-e.session.gone:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// Live holds a session that is already live, like [Registry.Acquire], but never waits.
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

// entry returns the session's entry; it begins to load a missing one.
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
		// The load does not use the caller's context: other callers wait for the same load.
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

// hold keeps a session live. It reports false if the session is being taken out.
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

// claim begins to take a session out: from then on it cannot be acquired. It reports false if another goroutine has
// begun that, or, without must, if the session is in use.
func (g *Registry) claim(s *Session, must bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.going || !must && s.users > 0 {
		return false
	}
	s.going = true
	return true
}

// forget removes sessions that were taken out, with their cached conversations.
func (g *Registry) forget(list ...*Session) {
	g.mu.Lock()
	for _, s := range list {
		if g.entries[s.ID] == s.entry {
			delete(g.entries, s.ID)
		}
		close(s.gone)
	}
	g.mu.Unlock()
	for _, s := range list {
		s.leaveHistory()
	}
}

// all returns the entries of all sessions.
func (g *Registry) all() []*entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.entries))
}

// live returns the sessions that are loaded and not being taken out.
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

// Users returns the number of users of a live session, and 0 for any other.
func (g *Registry) Users(id string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[id]; e != nil && e.session != nil {
		return e.session.users
	}
	return 0
}

// Kept returns the bytes of the cached conversations of all sessions.
func (g *Registry) Kept() int64 { return g.kept.Load() }

// Count returns the number of sessions that are live, being loaded or being taken out.
func (g *Registry) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.entries)
}

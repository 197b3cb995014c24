package core

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Supervisor runs commands.
type Supervisor struct {
	spawner Spawner
	limits  Limits
	wg      sync.WaitGroup // the watchers and feeders

	mu     sync.Mutex // guards what follows
	execs  map[string]*Exec
	closed bool
}

// New returns a supervisor without commands.
func New(spawner Spawner, limits Limits) *Supervisor {
	return &Supervisor{spawner: spawner, limits: limits, execs: map[string]*Exec{}}
}

// Start starts a command. When ctx ends, the command is ended; the caller must drain it with [Exec.Copy] in any case. Start
// fails with invalid_params, cage_unavailable, shell_spawn_failed, rate_limited when too many commands run, and unavailable.
func (s *Supervisor) Start(ctx context.Context, c Command) (*Exec, error) {
	spec, err := c.check(s.limits)
	if err != nil {
		return nil, err
	}
	e := &Exec{id: ident.New(), command: c, limits: s.limits, end: make(chan Reason, 1), gone: make(chan struct{})}
	// Known before it runs: an owner that ends meanwhile ends this one too.
	if err := s.add(e); err != nil {
		return nil, err
	}
	e.process, err = s.spawner.Spawn(ctx, spec)
	if err != nil {
		s.remove(e)
		return nil, err
	}
	e.input = newInput(e.process, s.limits.InputBytes, &s.wg)
	s.mu.Lock()
	e.started = time.Now()
	s.mu.Unlock()
	go func() {
		e.watch(ctx)
		s.remove(e)
	}()
	return e, nil
}

// add registers a command that is about to start; remove undoes it.
func (s *Supervisor) add(e *Exec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.Unavailable, "The sandbox supervisor is stopping.").With("subsystem", "sandbox-supervisor")
	}
	if len(s.execs) >= s.limits.MaxCommands {
		return fault.New(fault.RateLimited, "%d commands run already, which is as many as may run at once.", len(s.execs)).
			With("retry_after_ms", 1000)
	}
	s.execs[e.id] = e
	s.wg.Add(1)
	return nil
}

func (s *Supervisor) remove(e *Exec) {
	s.mu.Lock()
	delete(s.execs, e.id)
	s.mu.Unlock()
	close(e.gone)
	s.wg.Done()
}

// Info is what is known of a running command.
type Info struct {
	ID        string
	Owner     Owner
	PID       int
	Command   string // the command line, shortened
	StartedAt time.Time
	Usage     Usage
}

// List returns the commands of a session, of all for "", oldest first.
func (s *Supervisor) List(sessionID string) []Info {
	running := s.find(func(e *Exec) bool { return sessionID == "" || e.command.Owner.SessionID == sessionID })
	list := make([]Info, 0, len(running))
	for _, e := range running {
		if started := s.startOf(e); !started.IsZero() {
			list = append(list, Info{
				ID: e.id, Owner: e.command.Owner, PID: e.PID(), Command: line(e.command.Argv),
				StartedAt: started, Usage: e.process.Usage(),
			})
		}
	}
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// startOf returns when a command was started, zero for one that is on its way.
func (s *Supervisor) startOf(e *Exec) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.started
}

// EndOwner ends the commands of a session and returns how many there were, when they are gone or ctx ends.
func (s *Supervisor) EndOwner(ctx context.Context, sessionID string) (int, error) {
	if sessionID == "" {
		return 0, invalid("session_id", "Whose commands to end is missing: a session.")
	}
	return s.endAll(ctx, ReasonOwnerEnded, func(e *Exec) bool { return e.command.Owner.SessionID == sessionID })
}

// Drain refuses new commands from now on, ends all there are, and returns when they are gone or ctx ends.
func (s *Supervisor) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_, err := s.endAll(ctx, ReasonLost, func(*Exec) bool { return true })
	return err
}

// Close is a Drain without a limit, and returns when every goroutine of the supervisor has ended.
func (s *Supervisor) Close() {
	_ = s.Drain(context.Background())
	s.wg.Wait()
}

func (s *Supervisor) endAll(ctx context.Context, reason Reason, match func(*Exec) bool) (int, error) {
	ending := s.find(match)
	for _, e := range ending {
		e.stop(reason)
	}
	for _, e := range ending {
		select {
		case <-e.gone:
		case <-ctx.Done():
			return len(ending), fault.From(ctx.Err())
		}
	}
	return len(ending), nil
}

func (s *Supervisor) find(match func(*Exec) bool) []*Exec {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Exec
	for _, e := range s.execs {
		if match(e) {
			found = append(found, e)
		}
	}
	return found
}

package core

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Supervisor runs commands.
type Supervisor struct {
	spawner Spawner
	cages   Cages
	limits  Limits
	wg      sync.WaitGroup // counts watchers, feeders, and keepers of cages and of detached output

	mu       sync.Mutex // guards the fields below, ended detached commands, and the state of cages
	execs    map[string]*Exec
	detached map[string]*Detached // running and remembered commands
	ended    []*Detached          // remembered commands, the oldest first
	held     map[string]*Cage     // living, starting and ending cages
	left     leftovers
	closed   bool
	// connections is the number of connections of Connect, pending ones included.
	connections int
}

// New returns a supervisor without commands and cages.
func New(spawner Spawner, cages Cages, limits Limits) *Supervisor {
	return &Supervisor{
		spawner: spawner, cages: cages, limits: limits,
		execs: map[string]*Exec{}, detached: map[string]*Detached{}, held: map[string]*Cage{}, left: leftovers{},
	}
}

// Start starts a command. When ctx ends, the command is ended; the caller must always call [Exec.Copy], [Exec.Wait] and
// [Exec.Close]. Start fails with invalid_params, shell_spawn_failed, rate_limited when too many commands run or there
// are too many cages, and unavailable. One with a cage fails with cage_policy_invalid and cage_unavailable too, and
// with conflict if the cage is another session's or has another policy.
func (s *Supervisor) Start(ctx context.Context, c Command) (*Exec, error) {
	e := &Exec{id: ident.New(), command: c, refused: newFeed()}
	if err := s.start(ctx, ctx, e); err != nil {
		return nil, err
	}
	return e, nil
}

// start starts a command that ends with life; ctx limits only the start.
func (s *Supervisor) start(ctx, life context.Context, e *Exec) error {
	spec, err := e.command.check(s.limits)
	if err != nil {
		return err
	}
	e.limits, e.end, e.gone = s.limits, make(chan ending, 1), make(chan struct{})
	// Registered before it runs, so that an owner that ends in the meantime ends it too.
	if err := s.add(e); err != nil {
		return err
	}
	spawner, err := s.enter(ctx, e)
	if err != nil {
		s.remove(e)
		return err
	}
	e.process, err = spawner.Spawn(ctx, spec)
	if err != nil {
		s.leave(e)
		s.remove(e)
		return err
	}
	e.input = newInput(e.process, s.limits.InputBytes, &s.wg)
	s.mu.Lock()
	e.started = time.Now()
	s.mu.Unlock()
	go func() {
		e.watch(life)
		s.leave(e)
		s.remove(e)
	}()
	return nil
}

// add registers a command that is about to start; remove undoes it.
func (s *Supervisor) add(e *Exec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return stopping()
	}
	if len(s.execs) >= s.limits.MaxCommands {
		return fault.New(fault.RateLimited, "%d commands run already, which is as many as may run at once.", len(s.execs)).
			With("retry_after_ms", 1000)
	}
	s.execs[e.id] = e
	s.wg.Add(1)
	return nil
}

func stopping() error {
	return fault.New(fault.Unavailable, "The sandbox supervisor is stopping.").With("subsystem", "sandbox-supervisor")
}

func (s *Supervisor) remove(e *Exec) {
	s.mu.Lock()
	delete(s.execs, e.id)
	s.mu.Unlock()
	close(e.gone)
	s.wg.Done()
}

// List returns the commands selected by w, oldest first; with ended also the ended detached ones that ran.
func (s *Supervisor) List(w Whose, ended bool) []contract.Process {
	list := []contract.Process{}
	for _, d := range s.findDetached(w.shows) {
		info := d.Info()
		if info.Exit == nil {
			info.Use = d.exec.process.Usage().use()
		}
		if info.Exit == nil || ended {
			list = append(list, info)
		}
	}
	for _, e := range s.find(func(e *Exec) bool { return w.shows(e.command.Owner) && s.detached[e.id] == nil }) {
		if started := s.startOf(e); !started.IsZero() {
			list = append(list, contract.Process{RunningProcess: contract.RunningProcess{
				ID: e.id, Owner: e.command.Owner, PID: int64(e.PID()), Command: line(e.command.Argv), CageID: e.cageID(),
				StartedAt: started.UnixMilli(), Use: e.process.Usage().use(), Terminal: e.command.Terminal != nil,
			}})
		}
	}
	slices.SortFunc(list, func(a, b contract.Process) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// startOf returns the start time of a command, zero for a starting one.
func (s *Supervisor) startOf(e *Exec) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.started
}

// EndOwner ends the commands and the cages of a session, a run or a project. It returns the number of commands, when
// all have ended or ctx ends.
func (s *Supervisor) EndOwner(ctx context.Context, w Whose) (int, error) {
	if err := w.check(); err != nil {
		return 0, err
	}
	n, err := s.endAll(ctx, contract.ReasonOwnerEnded, w.ends)
	if err != nil {
		return n, err
	}
	// Later lists show them as ended.
	for _, d := range s.findDetached(w.ends) {
		select {
		case <-d.done:
		case <-ctx.Done():
			return n, fault.From(ctx.Err())
		}
	}
	return n, nil
}

// Drain refuses new commands and cages from now on, ends all present ones, and returns when they have ended or ctx
// ends.
func (s *Supervisor) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_, err := s.endAll(ctx, contract.ReasonLost, func(contract.Owner) bool { return true })
	return err
}

// Close is Drain without a time limit, and returns when every goroutine of the supervisor has ended.
func (s *Supervisor) Close() {
	_ = s.Drain(context.Background())
	s.wg.Wait()
}

// endAll ends the commands and the cages of an owner, and returns the number of commands, when all have ended or ctx
// ends.
func (s *Supervisor) endAll(ctx context.Context, reason contract.Reason, match func(contract.Owner) bool) (int, error) {
	ending := s.find(func(e *Exec) bool { return match(e.command.Owner) })
	for _, e := range ending {
		e.stop(reason)
	}
	cages := s.findCages(match)
	for _, c := range cages {
		c.stop(cause(reason))
	}
	gone := make([]<-chan struct{}, 0, len(ending)+len(cages))
	for _, e := range ending {
		gone = append(gone, e.gone)
	}
	for _, c := range cages {
		gone = append(gone, c.gone)
	}
	for _, gone := range gone {
		select {
		case <-gone:
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

// findDetached returns the started detached commands of an owner, ended ones included.
func (s *Supervisor) findDetached(match func(contract.Owner) bool) []*Detached {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	var found []*Detached
	for _, d := range s.detached {
		select {
		case <-d.started:
			if d.err == nil && match(d.command.Owner) {
				found = append(found, d)
			}
		default:
		}
	}
	return found
}

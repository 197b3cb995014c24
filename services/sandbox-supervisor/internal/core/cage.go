package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Cage is a kernel-enforced cage with its commands and its holders. It lives while it is held or a detached command
// runs in it, and ends earlier with its owner, at its walltime, or with its Box. One goroutine, keep, opens the Box and
// ends it.
type Cage struct {
	s    *Supervisor
	spec contract.CageSpec
	key  string

	life context.Context // cancelled, with a cause, by a request to end
	stop context.CancelCauseFunc

	checked chan struct{} // closed when the policy can be enforced and its paths are open
	opened  chan struct{} // closed when the fields below are set
	err     error         // the reason if it could not be made
	box     Box
	view    *cage.View
	began   time.Time

	gone   chan struct{}   // closed when the cage and its processes are gone
	reason contract.Reason // reason of the end, set under s.mu with ending

	// Guarded by s.mu.
	ending    bool
	deadline  time.Time  // zero without a walltime
	ran       bool       // whether a command was started in it
	seen      *cage.View // the folders at the last search
	collected bool       // whether the findings go to the caller of ReleaseCage
	found     []contract.Finding
	holds     map[*Hold]struct{}
	commands  map[*Exec]struct{} // running and starting commands
	empty     chan struct{}      // of an ending cage: closed when commands is empty
}

// cause is a [contract.Reason] as the cause of a context's end.
type cause contract.Reason

func (cause) Error() string { return "the cage is to end" }

func newCage(s *Supervisor, spec contract.CageSpec, key string) *Cage {
	c := &Cage{
		s: s, spec: spec, key: key, checked: make(chan struct{}), opened: make(chan struct{}), gone: make(chan struct{}),
		empty: make(chan struct{}),
		holds: map[*Hold]struct{}{}, commands: map[*Exec]struct{}{},
	}
	c.life, c.stop = context.WithCancelCause(context.Background())
	return c
}

// wanted returns the cause of life's end; call it only after that end.
func (c *Cage) wanted() contract.Reason {
	var reason cause
	errors.As(context.Cause(c.life), &reason)
	return contract.Reason(reason)
}

// over reports whether the cage is ending or soon will be. The caller holds s.mu.
func (c *Cage) over() bool { return c.ending || c.life.Err() != nil }

// hold adds a holder. The caller holds s.mu.
func (c *Cage) hold() *Hold {
	h := &Hold{cage: c, feed: newFeed()}
	c.holds[h] = struct{}{}
	return h
}

// restart resets the cage's walltime, for another invocation. The caller holds s.mu.
func (c *Cage) restart() {
	if !c.deadline.IsZero() {
		c.deadline = time.Now().Add(c.view.Limits.Walltime)
	}
}

// settle ends a cage without holders and detached commands. The caller holds s.mu.
func (c *Cage) settle() {
	if c.ending {
		if len(c.commands) == 0 {
			c.drained()
		}
		return
	}
	if len(c.holds) > 0 {
		return
	}
	for e := range c.commands {
		if e.detached {
			return
		}
	}
	c.stop(cause(contract.ReasonCancelled))
}

// drained closes empty. The caller holds s.mu.
func (c *Cage) drained() {
	select {
	case <-c.empty:
	default:
		close(c.empty)
	}
}

// keep opens the Box, waits for a reason to end it, and ends it.
func (c *Cage) keep() {
	defer c.s.wg.Done()
	defer c.stop(nil)
	if err := c.open(); err != nil {
		c.s.mu.Lock()
		c.ending = true
		delete(c.s.held, c.spec.ID)
		c.s.mu.Unlock()
		c.err = err
		close(c.opened)
		close(c.gone)
		return
	}
	close(c.opened)
	c.end(c.wait())
}

// open opens the Box.
func (c *Cage) open() error {
	view, err := c.s.cages.Compile(c.spec.Policy, c.spec.Root)
	if err != nil {
		return err
	}
	spec := BoxSpec{
		ID: c.spec.ID, View: view, State: c.state(), Checked: sync.OnceFunc(func() { close(c.checked) }),
	}
	box, err := c.s.cages.Boxes.Open(c.life, spec, c.attempt)
	if c.life.Err() != nil { // all holders have left, whatever the result
		if err == nil {
			box.Close()
		}
		switch c.wanted() {
		case contract.ReasonLost:
			return stopping()
		case contract.ReasonOwnerEnded:
			return fault.New(fault.CageUnavailable, "The cage's session ended while the cage was made.")
		}
		return fault.From(context.Canceled)
	}
	if err != nil {
		return err
	}
	c.box, c.view, c.began = box, view, time.Now()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.seen = view
	if view.Limits.Walltime > 0 {
		c.deadline = c.began.Add(view.Limits.Walltime)
	}
	return nil
}

// state returns the name of the persistent state, shared by the cages of one agent in one project.
func (c *Cage) state() string {
	sum := sha256.Sum256([]byte(c.spec.Root + "\x00" + c.spec.Owner.Agent))
	return hex.EncodeToString(sum[:16])
}

// wait waits for the end of the cage's life and returns the reason.
func (c *Cage) wait() contract.Reason {
	var walltime <-chan time.Time
	left, limited := c.left()
	timer := time.NewTimer(left)
	defer timer.Stop()
	if limited {
		walltime = timer.C
	}
	for {
		select {
		case <-c.box.Gone():
			return c.goneFor()
		case <-c.life.Done():
			return c.wanted()
		case <-walltime:
			if left, _ := c.left(); left > 0 {
				timer.Reset(left)
				continue
			}
			return contract.ReasonWalltime
		}
	}
}

// left is the remaining time of the cage, if its time is limited.
func (c *Cage) left() (time.Duration, bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return time.Until(c.deadline), !c.deadline.IsZero()
}

// goneFor returns the reason of a Box that ended by itself.
func (c *Cage) goneFor() contract.Reason {
	if why := c.box.Why(); why != contract.ReasonNone {
		return why
	}
	return contract.ReasonLost
}

// end ends the commands of the cage, kills them after the grace, and closes the Box.
func (c *Cage) end(reason contract.Reason) {
	grace := c.s.limits.CancelGrace
	if reason == contract.ReasonWalltime {
		grace = c.s.limits.KillGrace
	}
	for e, started := range c.close(reason) {
		e.stopAs(ending{reason: reason, grace: grace, told: started && reason == contract.ReasonWalltime})
	}
	if reason == contract.ReasonWalltime { // including processes that commands left behind
		c.box.Terminate()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	cancelled := c.life.Done()
	for waiting := true; waiting; {
		select {
		case <-cancelled:
			cancelled = nil
			timer.Reset(min(grace, c.s.limits.CancelGrace))
			continue
		case <-c.empty:
		case <-c.box.Gone():
		case <-timer.C:
		}
		waiting = false
	}
	c.box.Close()
	<-c.empty // the end of each command is recorded
	found := c.look()
	c.s.mu.Lock()
	c.leave(found)
	delete(c.s.held, c.spec.ID)
	c.s.mu.Unlock()
	close(c.gone)
}

// close refuses further commands and returns the present ones, with whether they have started.
func (c *Cage) close(reason contract.Reason) map[*Exec]bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.ending, c.reason = true, reason
	if len(c.commands) == 0 {
		c.drained()
	}
	in := make(map[*Exec]bool, len(c.commands))
	for e := range c.commands {
		in[e] = !e.started.IsZero()
	}
	return in
}

// lost returns the reason for a lost command that was to end for reason. A Box that lost a command is not used for
// others.
func (c *Cage) lost(reason contract.Reason) contract.Reason {
	c.s.mu.Lock()
	ending, ended := c.ending, c.reason
	c.s.mu.Unlock()
	c.box.Close()
	switch why := c.box.Why(); {
	case why != contract.ReasonNone:
		return why
	case !ending:
		return contract.ReasonLost
	case reason != contract.ReasonNone:
		return reason
	}
	return ended
}

// attempt passes an attempt to the holders of the cage, and a refused one to its commands too. It never blocks.
func (c *Cage) attempt(a contract.Attempt) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for h := range c.holds {
		h.feed.put(a)
	}
	if a.Allowed {
		return
	}
	for e := range c.commands {
		if e.refused != nil {
			e.refused.put(a)
		}
	}
}

func (c *Cage) info() contract.RunningCage {
	return contract.RunningCage{
		Cage:  contract.Cage{ID: c.spec.ID, Tier: c.box.Tier(), BestEffort: c.box.BestEffort()},
		Owner: c.spec.Owner, StartedAt: c.began.UnixMilli(),
	}
}

// Hold keeps a cage alive. Its methods may be called from any goroutine, Watch once.
type Hold struct {
	cage    *Cage
	feed    *feed
	release sync.Once
}

// Info returns the cage's description, without its usage.
func (h *Hold) Info() contract.RunningCage { return h.cage.info() }

// Watch calls sink with network attempts, one call at a time, until the cage has ended, and returns the reason. It
// returns early with an error of sink, and at the end of ctx.
func (h *Hold) Watch(ctx context.Context, sink func(contract.Attempt) error) (contract.Reason, error) {
	if err := h.feed.drain(ctx, h.cage.gone, sink); err != nil {
		return contract.ReasonNone, err
	}
	return h.cage.reason, nil
}

// Release releases the cage, which may end it, and does not wait for that. Only the first call counts.
func (h *Hold) Release() {
	h.release.Do(func() {
		c := h.cage
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		delete(c.holds, h)
		c.settle()
	})
}

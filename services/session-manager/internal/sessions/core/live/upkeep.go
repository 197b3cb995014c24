package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
)

// sweepBatch is the largest number of sessions in one sweep, sweepers the number handled at once.
const (
	sweepBatch = 256
	sweepers   = 8
)

// Run releases the leases of dead instances of this node. Then, until ctx ends, it renews leases, looks for runs
// without a holder, and unloads unused sessions. Finally it takes every session out in good order and returns when
// all its goroutines have ended.
func (g *Registry) Run(ctx context.Context) {
	var loops sync.WaitGroup
	upkeep, stopUpkeep := context.WithCancel(context.WithoutCancel(ctx))
	if g.boot(ctx) {
		close(g.booted)
		loops.Go(func() { g.ledger.Run(upkeep) })
		loops.Go(func() { every(upkeep, g.LeaseTTL/3, g.renew) })
		loops.Go(func() { g.sweep(upkeep); every(upkeep, g.Sweep, g.sweep) })
		loops.Go(func() { every(upkeep, g.Sweep, g.drainWorkspaces) })
		loops.Go(func() { every(upkeep, max(g.UnloadAfter/4, time.Millisecond), g.unload) })
		<-ctx.Done()
	}
	g.close(context.WithoutCancel(ctx))
	g.stop()
	g.work.Wait()
	g.close(context.WithoutCancel(ctx)) // sessions that were being loaded during the first close
	stopUpkeep()
	loops.Wait()
	g.work.Wait()
}

// every calls f after each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// boot releases the leases of dead instances of this node. It reports false if ctx ends first.
func (g *Registry) boot(ctx context.Context) bool {
	for range pauses.Each(ctx) {
		n, err := g.Store.ReleaseNode(ctx, g.Self.Node, g.Self.Instance)
		if err == nil {
			if n > 0 {
				g.Log.Info("released leases of a dead instance", "leases", n)
			}
			return true
		}
		g.Log.Warn("waiting for the store", "error", err)
	}
	return false
}

// renew renews the leases of live sessions and drops sessions whose lease is lost.
func (g *Registry) renew(ctx context.Context) {
	list := g.live()
	if len(list) == 0 {
		return
	}
	ids := make([]string, len(list))
	for i, s := range list {
		ids[i] = s.ID
	}
	held, err := g.Store.Renew(ctx, g.Self.Instance, ids, g.LeaseTTL.Milliseconds())
	if err != nil {
		// Leases stay ours until another process takes them; then the next write fails.
		g.Log.Warn("leases were not renewed", "error", err)
		return
	}
	still := make(map[string]bool, len(held))
	for _, id := range held {
		still[id] = true
	}
	for _, s := range list {
		if !still[s.ID] {
			g.drop(s, fault.New(fault.StaleLease, "Another process took over session %s.", s.ID))
		}
	}
}

// sweep makes sessions without a holder live that have unfinished work. Loading such a session adopts or ends its
// active run, resumes an interrupted run, and ends an unfinished compaction.
func (g *Registry) sweep(ctx context.Context) {
	ids, err := g.Store.Abandoned(ctx, sweepBatch)
	if err != nil {
		if ctx.Err() == nil {
			g.Log.Warn("runs without a holder could not be listed", "error", err)
		}
		return
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, sweepers)
	for _, id := range ids {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			_, release, err := g.Acquire(ctx, id)
			if err == nil {
				release()
			} else if !errors.Is(err, fault.StaleLease) && ctx.Err() == nil {
				g.Log.Warn("an interrupted run was not ended; retrying", "session", id, "error", err)
			}
		})
	}
	work.Wait()
}

// unload takes out sessions that are unused for UnloadAfter.
func (g *Registry) unload(ctx context.Context) {
	var list []*Session
	for _, s := range g.live() {
		if g.unused(s) && s.frames.Idle() && g.claim(s, false) {
			list = append(list, s)
		}
	}
	g.takeOut(ctx, list)
}

func (g *Registry) unused(s *Session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return s.users == 0 && time.Since(s.idleSince) >= g.UnloadAfter
}

// takeOut closes claimed sessions, stores their progress, and releases their leases.
func (g *Registry) takeOut(ctx context.Context, list []*Session) {
	if len(list) == 0 {
		return
	}
	fences := make([]lease.Fence, len(list))
	var closing sync.WaitGroup
	for i, s := range list {
		fences[i] = s.fence
		closing.Go(func() { s.frames.Close(ctx) })
	}
	closing.Wait()
	// Both only save time: the next holder finds the numbers in the stream, and leases expire.
	err := g.ledger.Flush(ctx)
	if err == nil {
		err = g.Store.Release(ctx, fences)
	}
	if err != nil {
		g.Log.Warn("leases were not released", "sessions", len(list), "error", err)
	}
	g.forget(list...)
}

// drop takes a session out whose lease is lost or whose stored state is unknown. No further change of it is written
// here.
func (g *Registry) drop(s *Session, cause error) {
	if !g.claim(s, true) {
		return
	}
	g.Log.Warn("dropping a session", "session", s.ID, "error", cause)
	g.work.Go(func() {
		<-s.entry.loaded // it may be dropped while it is being loaded
		if run := s.CurrentRun(); run != nil {
			run.Abandon()
			<-run.Done()
		}
		s.Release(moved)
		at, cancel := context.WithCancel(g.ctx)
		cancel()
		s.frames.Close(at)
		g.forget(s)
	})
}

// Drain refuses new work with unavailable and releases each session once its run has reached a safe point, at the
// latest when ctx ends, so that another process can continue it.
func (g *Registry) Drain(ctx context.Context) {
	g.shut()
	idle := make(chan *Session)
	var looking, leaving sync.WaitGroup
	for _, e := range g.all() {
		looking.Go(func() {
			select {
			case <-e.loaded:
			case <-ctx.Done(): // the end of the process takes it out
				return
			}
			if e.session == nil {
				return
			}
			if e.session.handOver(ctx); e.session.CurrentRun() == nil {
				idle <- e.session
				return
			}
			leaving.Go(func() { g.leave(ctx, []*Session{e.session}) })
		})
	}
	leaving.Go(func() { g.leaveTogether(ctx, idle) })
	looking.Wait()
	close(idle)
	leaving.Wait()
}

// leaveTogether releases the sessions of a channel, at each time all that wait there. Ten thousand idle sessions would
// otherwise be ten thousand transactions, more than fit into the time of a stop.
func (g *Registry) leaveTogether(ctx context.Context, idle <-chan *Session) {
	for s := range idle {
		list := []*Session{s}
		for more := true; more; {
			select {
			case s, open := <-idle:
				if more = open; open {
					list = append(list, s)
				}
			default:
				more = false
			}
		}
		g.leave(ctx, list)
	}
}

// leave releases sessions once their runs have ended or are handed over.
func (g *Registry) leave(ctx context.Context, list []*Session) {
	awaitRuns(ctx, list)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.CutGrace)
	defer cancel()
	g.cut(grace, list)
	g.part(context.WithoutCancel(ctx), list)
	g.claimAndTakeOut(context.WithoutCancel(ctx), list)
}

// claimAndTakeOut claims the sessions of a list, and takes out the claimed ones. Other goroutines take out the rest.
func (g *Registry) claimAndTakeOut(ctx context.Context, list []*Session) {
	claimed := list[:0]
	for _, s := range list {
		if g.claim(s, true) {
			claimed = append(claimed, s)
		}
	}
	ctx, done := context.WithTimeout(ctx, g.Farewell)
	defer done()
	g.takeOut(ctx, claimed)
}

func (g *Registry) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse == nil {
		g.refuse = stopping()
	}
}

// refused returns why this process accepts no new work, or nil.
func (g *Registry) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refuse
}

// awaitRuns waits until the sessions of the list have no run, or ctx ends.
func awaitRuns(ctx context.Context, list []*Session) {
	for _, s := range list {
		if run := s.CurrentRun(); run != nil {
			select {
			case <-run.Done():
			case <-ctx.Done():
				return
			}
		}
	}
}

// cut ends the runs that are left. They store their end as interrupted if the store answers before ctx ends.
func (g *Registry) cut(ctx context.Context, list []*Session) {
	for _, s := range list {
		if run := s.CurrentRun(); run != nil {
			run.Cut()
		}
	}
	awaitRuns(ctx, list)
	for _, s := range list {
		if run := s.CurrentRun(); run != nil {
			run.Abandon()
			<-run.Done()
		}
	}
}

// part publishes the last frames and then ends the holds of sockets.
func (g *Registry) part(ctx context.Context, list []*Session) {
	ctx, cancel := context.WithTimeout(ctx, g.Farewell)
	defer cancel()
	var flushing sync.WaitGroup
	for _, s := range list {
		flushing.Go(func() {
			s.frames.Flush(ctx)
			s.Release(Ended{ServerShutdown, "kaged is stopping."})
		})
	}
	flushing.Wait()
}

// close takes every session out.
func (g *Registry) close(ctx context.Context) {
	g.shut()
	list := g.live()
	grace, cancel := context.WithTimeout(ctx, g.CutGrace)
	defer cancel()
	g.cut(grace, list)
	g.part(ctx, list)
	g.claimAndTakeOut(ctx, list)
}

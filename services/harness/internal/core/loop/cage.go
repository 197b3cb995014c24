package loop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Cage is the held cage of an agent's invocation.
type Cage interface {
	// Opened waits until the cage is up, and describes it. It fails if the cage cannot be made.
	Opened() (contract.Cage, error)
	// Next returns the next event: a network attempt, or the cage's end, which is the last event. It fails when the
	// cage is no longer held, after its release or after the loss of tool-runner. It is called by one goroutine.
	Next() (contract.CageEvent, error)
	// Release gives up the hold of the cage and returns its findings: when the cage has ended, or at once if background
	// processes keep it.
	Release(ctx context.Context) ([]contract.Finding, error)
}

// maxAttempts is the most network attempts that are reported and recorded one by one. Further attempts are only
// counted.
const maxAttempts = 200

// The types of audit records about cages.
const (
	spawnedUncaged = "subagent.spawn.uncaged"
	cageOpened     = "cage.opened"
	cageEnded      = "cage.ended"
	cageFound      = "cage.found"
	netAllowed     = "net.allowed"
	netDenied      = "net.denied"
	netOmitted     = "net.omitted"
)

// held is the cage of the invocation's agent, with its state.
//
// Goroutines: one that reads its events, from [invocation.enterCage] to [invocation.leaveCage].
type held struct {
	id      string
	cage    Cage
	release context.CancelFunc
	leaving atomic.Bool // the invocation has released the cage: its end is not reported
	watch   sync.WaitGroup
	over    atomic.Bool // a call ended because the cage ended
	// opened is closed when the cage is open or has failed. err is set before: the cage's error.
	opened chan struct{}
	err    error
	// The fields below belong to the goroutine that reads the events.
	reported        int
	allowed, denied int64 // unreported attempts
	ended           bool
}

// enterCage makes the agent's cage, if the agent has one. For the root agent it returns when the cage is open, so
// that no model is asked before. For a child it returns when the policy is checked and the cage's paths are open: the
// cage opens beside the first model call, and tools wait for it. With --no-sandbox it only records that the agent
// works without a cage.
func (v *invocation) enterCage(ctx context.Context) error {
	if v.agent.Cage == nil && v.deps.CagesOnly {
		return contract.CageRequired(v.agent.Path)
	}
	if v.agent.Cage == nil {
		return nil
	}
	if v.start.NoSandbox {
		return v.emit(contract.CageChanged{Status: contract.Uncaged, Audit: v.cageRecord(spawnedUncaged, map[string]any{
			"level": "warning", "reason": "kaged runs with --no-sandbox",
		})})
	}
	// The cage outlives the cancellation of the run: commands of cancelled calls have their grace period until its
	// release.
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	unwanted := context.AfterFunc(ctx, release)
	cage, err := v.deps.Tools.Hold(life, ident.New(), v.toolContext)
	if err != nil {
		unwanted()
		release()
		return err
	}
	v.cage = &held{cage: cage, release: release, opened: make(chan struct{})}
	v.cage.watch.Go(func() {
		if v.openCage(ctx, unwanted) {
			v.watchCage(life, cage)
		}
	})
	if v.parent != nil {
		return nil
	}
	return v.awaitCage(ctx)
}

// openCage waits for the opened cage and reports it. It returns false if the cage failed or the run was cancelled.
func (v *invocation) openCage(ctx context.Context, wanted func() bool) bool {
	c := v.cage
	defer close(c.opened)
	opened, err := c.cage.Opened()
	if !wanted() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		c.id, v.toolContext.CageID = opened.ID, opened.ID
		err = v.emit(contract.CageChanged{
			Status: contract.Caged, Tier: opened.Tier, BestEffort: opened.BestEffort, Summary: opened.Summary,
			Notes: opened.Notes,
			Audit: v.cageRecord(cageOpened, map[string]any{
				"tier": opened.Tier, "best_effort": texts(opened.BestEffort), "cage_summary": valid(opened.Summary),
				"notes": texts(opened.Notes),
			}),
		})
	}
	if err != nil && v.parent != nil {
		err = notStarted(v.agent, err)
		v.quit(err) // the child's model call may be in flight
	}
	c.err = err
	return err == nil
}

// awaitCage waits until the agent's cage is open, and returns at once for an agent without one. It fails with the
// cage's error.
func (v *invocation) awaitCage(ctx context.Context) error {
	if v.cage == nil {
		return nil
	}
	select {
	case <-v.cage.opened:
		return v.cage.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaveCage releases the cage at the end of the invocation, and returns after the last report about it.
func (v *invocation) leaveCage() {
	c := v.cage
	if c == nil {
		return
	}
	c.leaving.Store(true)
	if v.fin.Outcome == contract.HandedOver {
		v.keepRun()
		c.release()
		c.watch.Wait()
		return
	}
	select {
	case <-c.opened:
	default: // the invocation ended before its cage was open
		c.release()
		<-c.opened
	}
	if c.err != nil {
		c.release()
		c.watch.Wait()
		return
	}
	found := v.releaseCage()
	c.release()
	c.watch.Wait()
	v.tellFound(found)
	// The invocation has ended, so an error of the sink has no effect.
	if c.allowed+c.denied > 0 {
		_ = v.emit(v.cageRecord(netOmitted, map[string]any{"allowed": c.allowed, "denied": c.denied}))
	}
	if !c.ended {
		_ = v.emit(v.cageRecord(cageEnded, map[string]any{"reason": "released"}))
	}
}

// releaseCage releases the cage and returns its findings.
func (v *invocation) releaseCage() []contract.Finding {
	ctx, cancel := context.WithTimeout(context.Background(), v.deps.Limits.CageLeave)
	defer cancel()
	found, err := v.cage.cage.Release(ctx)
	if err != nil {
		return []contract.Finding{{Kind: "partial", Text: "The cage's findings are unknown: " + fault.From(err).Msg}}
	}
	return found
}

// tellFound reports and records the cage's findings: files that programs outside the cage would run.
func (v *invocation) tellFound(found []contract.Finding) {
	if len(found) == 0 {
		return
	}
	list := make([]any, len(found))
	for i, f := range found {
		list[i] = map[string]any{"kind": f.Kind, "path": valid(f.Path), "text": valid(f.Text)}
	}
	_ = v.emit(contract.CageChanged{
		Status: contract.Caged, Found: found,
		Audit: v.cageRecord(cageFound, map[string]any{"level": "warning", "found": list}),
	})
}

// watchCage reports the events of the cage until its release. The end of a cage before its release ends the
// invocation.
func (v *invocation) watchCage(life context.Context, cage Cage) {
	for {
		e, err := cage.Next()
		if err != nil {
			if life.Err() != nil {
				return
			}
			e = contract.CageEvent{Ended: lost}
		}
		if e.Ended != "" && v.cage.leaving.Load() {
			return
		}
		switch {
		case e.Network != nil:
			v.tried(*e.Network)
		case e.Ended != "":
			v.cage.ended = true
			_ = v.emit(contract.CageChanged{
				Status: contract.Caged, Ended: e.Ended, Audit: v.cageRecord(cageEnded, map[string]any{"reason": e.Ended}),
			})
			v.tellFound(e.Found)
			v.quit(v.uncaged(e.Ended, err))
			return
		}
	}
}

// lost is the reason of a cage's end when the true reason is unknown.
const lost = "lost"

// uncaged returns the error of an agent that lost its cage, by the reason of the cage's end.
func (v *invocation) uncaged(reason string, cause error) *fault.Error {
	limits := v.agent.Cage.Limits
	limit := func(f *fault.Error) *fault.Error { return f.With("agent", v.agent.Path).With("limit", reason) }
	switch reason {
	case "walltime":
		return limit(fault.New(fault.Timeout,
			"The time of the agent %s is over: limits.walltime of its cage is %s. Raise the limit, or give it less to do.",
			v.agent.Path, dsl.Span(limits.Walltime)))
	case "disk":
		return limit(fault.New(fault.CageLimitReached,
			"The cage of the agent %s wrote more than its limits.disk of %s; what was written stays. Raise the limit, or "+
				"have it write less.",
			v.agent.Path, dsl.Bytes(limits.Disk)))
	case "oom", "pids":
		return limit(
			fault.New(fault.CageLimitReached, "The cage of the agent %s was ended at a limit (%s). Raise it, or have the "+
				"agent do with less.", v.agent.Path, reason),
		)
	case "owner_ended":
		return fault.New(fault.Cancelled, "The session was ended.")
	}
	if cause == nil || errors.Is(cause, context.Canceled) {
		cause = errors.New("the cage init has ended")
	}
	return fault.Wrap(cause, fault.Interrupted, "The cage of the agent %s was lost, with everything that ran in it; "+
		"completed steps are kept.", v.agent.Path).
		With("agent", v.agent.Path)
}

// tried reports a network attempt. After maxAttempts it only counts.
func (v *invocation) tried(a contract.Attempt) {
	c := v.cage
	switch {
	case c.reported < maxAttempts:
		c.reported++
		event := netDenied
		if a.Allowed {
			event = netAllowed
		}
		a.Target, a.Rule = valid(a.Target), valid(a.Rule)
		record := v.cageRecord(event, map[string]any{"target": a.Target, "rule": a.Rule, "count": a.Count})
		record.At = a.At
		_ = v.emit(contract.NetworkTried{Attempt: a, Audit: record}) // a failing sink ends the run
	case a.Allowed:
		c.allowed += a.Count
	default:
		c.denied += a.Count
	}
}

// cageRecord returns an audit record about the agent's cage.
func (v *invocation) cageRecord(event string, payload map[string]any) contract.Record {
	payload["run_id"], payload["session_id"], payload["caller"] = v.start.RunID, v.start.SessionID, v.agent.Path
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	if v.cage != nil {
		payload["cage_id"] = v.cage.id
	}
	return contract.NewRecord(event, v.agent.Path, payload)
}

// texts returns strings as the values of an audit record.
func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = valid(s)
	}
	return out
}

package loop

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Cage is the cage of an agent's invocation, while it is held.
type Cage interface {
	// Opened says what it is.
	Opened() CageOpened
	// Next returns what happens next: an [Attempt], or, as the last, a [CageEnd]. It fails when the cage is held no longer, because it is
	// released or because who held it was lost. It is called by one goroutine.
	Next() (any, error)
	// Release lets go of the cage and returns what it leaves when it has ended, or at once if background processes keep it.
	Release(ctx context.Context) ([]CageFinding, error)
}

// CageOpened describes a cage.
type CageOpened struct {
	// ID is the one that was chosen, or that of a cage of the same agent that was joined.
	ID string
	// Tier is how it is enforced, BestEffort says what of the policy is held by watching, Summary is the policy in one line.
	Tier       string
	BestEffort []string
	Summary    string
	// Notes are what an operator is told of it, each a sentence.
	Notes []string
}

// CageFinding is something that was made in a cage's writable folders and that may make tools outside run code.
type CageFinding struct {
	// Kind is a word for what it is, Path where, absolute and "" for none, Text a sentence about it.
	Kind, Path, Text string
}

// Attempt is a connection or a lookup that something in a cage tried.
type Attempt struct {
	At time.Time
	// Target is "host:port", "host" for a lookup, an address where no name was asked for, or "UDP" or "UDP over IPv6" where only that
	// is known.
	Target string
	// Allowed says whether it was let through. Rule is the policy's rule that did, or a sentence with why it was refused.
	Allowed bool
	Rule    string
	// Count is how many of its kind this stands for.
	Count int64
}

// CageEnd is the end of a cage by itself. Reason is oom, pids, walltime, disk, owner_ended or lost.
type CageEnd struct {
	Reason string
	// Found is what was found in its writable folders.
	Found []CageFinding
}

// CageStatus is whether an agent works in a cage.
type CageStatus string

// The statuses.
const (
	Caged   CageStatus = "caged"
	Uncaged CageStatus = "uncaged"
)

// CageChanged says in which cage the agent is, or that it is there no longer.
type CageChanged struct {
	Status     CageStatus
	Tier       string
	BestEffort []string
	Summary    string
	// Notes are what an operator is told of a cage that was made.
	Notes []string
	// Ended is why the cage has ended before the run, "" while it lives.
	Ended string
	// Found is what was made in its writable folders, known at its end.
	Found []CageFinding
	// Audit is the record of it.
	Audit Record
}

// NetworkTried is an attempt on the network, with the record of it.
type NetworkTried struct {
	Attempt Attempt
	Audit   Record
}

func (CageChanged) event()  {}
func (NetworkTried) event() {}

// maxAttempts is how many attempts of a run are reported and recorded one by one. Of further ones only the number is.
const maxAttempts = 200

// The records of cages. The first is a warning.
const (
	spawnedUncaged = "subagent.spawn.uncaged"
	cageOpened     = "cage.opened"
	cageEnded      = "cage.ended"
	cageFound      = "cage.found"
	netAllowed     = "net.allowed"
	netDenied      = "net.denied"
	netOmitted     = "net.omitted"
)

// held is the cage that the run's agent is in.
//
// Goroutines: one that reads what happens in it, from [run.enterCage] to [run.leaveCage].
type held struct {
	id      string
	cage    Cage
	release context.CancelFunc
	leaving atomic.Bool // the run lets go of it: its end is no news
	watch   sync.WaitGroup
	over    atomic.Bool // a call was ended with the cage
	// What follows belongs to the goroutine that watches.
	reported        int
	allowed, denied int64 // attempts that were not reported
	ended           bool
}

// enterCage makes the agent's cage, if it has one: without it no model is asked. Where cages are switched off the record says that the
// agent works without.
func (r *run) enterCage(ctx context.Context) error {
	if r.agent.Cage == nil {
		return nil
	}
	if r.start.NoSandbox {
		return r.emit(CageChanged{Status: Uncaged, Audit: r.cageRecord(spawnedUncaged, map[string]any{
			"level": "warning", "reason": "kaged runs with --no-sandbox",
		})})
	}
	// The cage outlives the cancellation of the run, so that its commands are ended as those of a cancelled call are.
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	unwanted := context.AfterFunc(ctx, release)
	cage, err := r.deps.Tools.Hold(life, ident.New(), r.toolContext)
	if !unwanted() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		release()
		return err
	}
	opened := cage.Opened()
	r.toolContext.CageID = opened.ID
	r.cage = &held{id: opened.ID, cage: cage, release: release}
	err = r.emit(CageChanged{
		Status: Caged, Tier: opened.Tier, BestEffort: opened.BestEffort, Summary: opened.Summary, Notes: opened.Notes,
		Audit: r.cageRecord(cageOpened, map[string]any{
			"tier": opened.Tier, "best_effort": texts(opened.BestEffort), "cage_summary": valid(opened.Summary), "notes": texts(opened.Notes),
		}),
	})
	r.cage.watch.Go(func() { r.watchCage(life, cage) })
	return err
}

// leaveCage releases the cage of a run that is over, and returns when nothing of it is reported any more.
func (r *run) leaveCage() {
	c := r.cage
	if c == nil {
		return
	}
	c.leaving.Store(true)
	found := r.releaseCage()
	c.release()
	c.watch.Wait()
	r.tellFound(found)
	// The run is over: nobody can be told any more that the sink is gone.
	if c.allowed+c.denied > 0 {
		_ = r.emit(r.cageRecord(netOmitted, map[string]any{"allowed": c.allowed, "denied": c.denied}))
	}
	if !c.ended {
		_ = r.emit(r.cageRecord(cageEnded, map[string]any{"reason": "released"}))
	}
}

// leaveTimeout is how long a run that is over waits for its cage to end, and for its folders to be looked at.
const leaveTimeout = 30 * time.Second

// releaseCage lets go of the cage and returns what it leaves.
func (r *run) releaseCage() []CageFinding {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	found, err := r.cage.cage.Release(ctx)
	if err != nil {
		return []CageFinding{{Kind: "partial", Text: "What was made in the cage is not known: " + fault.From(err).Msg}}
	}
	return found
}

// tellFound reports and records what was made in the cage.
func (r *run) tellFound(found []CageFinding) {
	if len(found) == 0 {
		return
	}
	list := make([]any, len(found))
	for i, f := range found {
		list[i] = map[string]any{"kind": f.Kind, "path": valid(f.Path), "text": valid(f.Text)}
	}
	_ = r.emit(CageChanged{Status: Caged, Found: found, Audit: r.cageRecord(cageFound, map[string]any{"level": "warning", "found": list})})
}

// watchCage reports what happens in the cage until it is released. If the cage ends before, so does the run.
func (r *run) watchCage(life context.Context, cage Cage) {
	for {
		what, err := cage.Next()
		if err != nil {
			if life.Err() != nil {
				return
			}
			what = CageEnd{Reason: lost}
		}
		if _, ended := what.(CageEnd); ended && r.cage.leaving.Load() {
			return
		}
		switch e := what.(type) {
		case Attempt:
			r.tried(e)
		case CageEnd:
			r.cage.ended = true
			_ = r.emit(CageChanged{Status: Caged, Ended: e.Reason, Audit: r.cageRecord(cageEnded, map[string]any{"reason": e.Reason})})
			r.tellFound(e.Found)
			r.quit(r.uncaged(e.Reason, err))
			return
		}
	}
}

// lost is the end of a cage that nobody knows the reason of.
const lost = "lost"

// uncaged is why a run ends whose cage is gone.
func (r *run) uncaged(reason string, cause error) *fault.Error {
	limits := r.agent.Cage.Limits
	limit := func(f *fault.Error) *fault.Error { return f.With("agent", r.agent.Path).With("limit", reason) }
	switch reason {
	case "walltime":
		return limit(fault.New(fault.Timeout,
			"The time of the agent %s is over: limits.walltime of its cage is %s. Raise the limit, or give it less to do.", r.agent.Path, dsl.Span(limits.Walltime)))
	case "disk":
		return limit(fault.New(fault.CageLimitReached,
			"The cage of the agent %s wrote more than its limits.disk of %s; what was written stays. Raise the limit, or have it write less.",
			r.agent.Path, dsl.Bytes(limits.Disk)))
	case "oom", "pids":
		return limit(fault.New(fault.CageLimitReached, "The cage of the agent %s was ended at a limit (%s). Raise it, or have the agent do with less.", r.agent.Path, reason))
	case "owner_ended":
		return fault.New(fault.Cancelled, "The session was ended.")
	}
	if cause == nil || errors.Is(cause, context.Canceled) {
		cause = errors.New("its init is gone")
	}
	return fault.Wrap(cause, fault.Interrupted, "The cage of the agent %s was lost, with everything that ran in it; completed steps are kept.", r.agent.Path).
		With("agent", r.agent.Path)
}

// tried reports an attempt, or counts it where there were many.
func (r *run) tried(a Attempt) {
	c := r.cage
	switch {
	case c.reported < maxAttempts:
		c.reported++
		event := netDenied
		if a.Allowed {
			event = netAllowed
		}
		a.Target, a.Rule = valid(a.Target), valid(a.Rule)
		record := r.cageRecord(event, map[string]any{"target": a.Target, "rule": a.Rule, "count": a.Count})
		record.At = a.At
		_ = r.emit(NetworkTried{Attempt: a, Audit: record}) // a sink that is gone ends the run
	case a.Allowed:
		c.allowed += a.Count
	default:
		c.denied += a.Count
	}
}

// cageRecord is a record about the agent's cage.
func (r *run) cageRecord(event string, payload map[string]any) Record {
	payload["run_id"], payload["session_id"], payload["caller"] = r.start.RunID, r.start.SessionID, r.agent.Path
	if r.cage != nil {
		payload["cage_id"] = r.cage.id
	}
	return Record{Type: event, At: time.Now(), AgentPath: r.agent.Path, Payload: payload}
}

// texts are strings as a record holds them.
func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = valid(s)
	}
	return out
}

package loop

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core/budget"
)

// errStopping ends a run when its service stops. Finished work is kept, and the operator's crash policy decides the
// rest.
var errStopping = fault.New(fault.Interrupted, "kaged was stopped while the run was under way.")

// errHandOver stops an invocation at a step boundary, or where it waits for an operator. Another harness continues
// the run.
var errHandOver = errors.New("the run is handed over")

// Stopped is the cause of the end of a run's context when its service stops.
func Stopped() error { return errStopping }

// Tree is a run: the root agent's invocation, and the invocations of the agents below it. It holds their shared state.
type Tree struct {
	deps  Deps
	start Start
	sink  Sink
	hold  *hold
	// resets are the times at which rate-limited targets accept requests again.
	resets resets
	book   *budget.Book
	whole  *budget.Account // the run's own account

	mu      sync.Mutex // guards the fields below
	routes  map[string]contract.Route
	skipped []string // unusable targets that were announced
	// entries are the session's ledger, the run's own entries last. lastEntry is the number of the newest entry.
	entries   []contract.LedgerEntry
	lastEntry int64
	ends      map[string]context.CancelCauseFunc
	keeping   sync.Once // guards the call of KeepRun
}

// New returns a run that has not started.
func New(deps Deps, start Start, sink Sink) *Tree {
	if deps.Watch == nil {
		deps.Watch = unwatched{}
	}
	if deps.Beat == nil {
		deps.Beat = new(Beat)
	}
	t := &Tree{
		deps: deps, start: start, sink: sink, routes: start.Routes, ends: map[string]context.CancelCauseFunc{},
		book: budget.NewBook(), entries: start.Ledger.Entries, lastEntry: start.Ledger.Seq,
	}
	t.whole = t.book.Open(nil, "", &dsl.Budget{LiveAgents: cmp.Or(start.LiveAgents, deps.Limits.LiveAgents)})
	return t
}

// Run runs the root agent to its end and returns its outcome; after a panic the run has failed. All invocations have
// ended when it returns.
func (t *Tree) Run(ctx context.Context) contract.Finished {
	defer t.leaveWorkspace()
	root := &invocation{
		Tree: t, agent: t.start.Agent, history: t.start.History, sources: t.start.Sources, head: t.start.AuditHead,
		keptIDs: t.start.Kept, continued: t.start.at("", ""),
	}
	root.room.superseded = t.start.SupersededTurns
	root.open(t.whole)
	root.carried = t.start.Carried
	fin := root.run(ctx)
	root.carryOn(fin)
	if fin.Outcome == contract.HandedOver {
		root.keepRun()
	}
	return fin
}

// Cancel ends an invocation below the root's, and those below it. It ignores an unknown id. It is safe for concurrent
// use.
func (t *Tree) Cancel(id, reason string) {
	t.mu.Lock()
	end := t.ends[id]
	t.mu.Unlock()
	if end != nil {
		end(fault.New(fault.Cancelled, "The agent was cancelled.").With("reason", reason))
	}
}

// cancelable lets [Tree.Cancel] end an invocation until the returned function is called.
func (t *Tree) cancelable(id string, end context.CancelCauseFunc) (over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends[id] = end
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ends, id)
	}
}

// reroute replaces the routes; nil keeps them.
func (t *Tree) reroute(routes map[string]contract.Route) {
	if routes == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.routes = routes
}

// route returns the route of an alias. The session's choice of a model replaces the root agent's route.
func (t *Tree) route(alias string, root bool) (contract.Route, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if chosen, ok := t.routes[contract.RootRoute]; ok && root && len(chosen.Targets) > 0 {
		return chosen, nil
	}
	route, ok := t.routes[alias]
	if !ok || len(route.Targets) == 0 {
		return contract.Route{}, fault.New(fault.ModelAliasNotFound, "Model alias '%s' not found in local config.", alias).
			With("alias", alias)
	}
	return route, nil
}

// skips reports whether a target is passed over for the first time, and remembers it.
func (t *Tree) skips(target string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.skipped, target) {
		return false
	}
	t.skipped = append(t.skipped, target)
	return true
}

// stopping reports whether the run has to end at its next step boundary.
func (t *Tree) stopping() bool {
	select {
	case <-t.deps.Stopping:
		return true
	default:
		return false
	}
}

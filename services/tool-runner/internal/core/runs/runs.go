// Package runs tracks the runs of agents in a workspace.
//
// A run lives while at least one caller holds it. It ends when the last caller leaves; its late calls are then refused
// until a caller holds it again. The calls of a run that was never held are accepted.
package runs

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"kaged.dev/pkg/fault"
)

// Run names a run.
type Run struct{ Session, ID string }

// remembered is the maximum number of remembered ended runs.
const remembered = 4096

// Runs are the runs of a workspace. It is safe for concurrent use.
type Runs struct {
	mu       sync.Mutex // guards the fields below
	holders  map[Run]int
	sessions map[string]int // the number of held runs of each session
	ended    *simplelru.LRU[Run, struct{}]
	kept     map[Run]chan struct{} // runs that are handed over; the channel is closed when another holder comes
	changed  chan struct{}         // closed and replaced when a run is kept or ends
}

// New returns an empty set.
func New() *Runs {
	ended, err := simplelru.NewLRU[Run, struct{}](remembered, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Runs{
		holders: map[Run]int{}, sessions: map[string]int{}, ended: ended, kept: map[Run]chan struct{}{},
		changed: make(chan struct{}),
	}
}

// Hold holds a run until release is called, once. release reports whether it ended the run, and whether that was the
// last run of its session.
func (r *Runs) Hold(run Run) (release func() (ended, last bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if again := r.kept[run]; again != nil {
		close(again)
		delete(r.kept, run)
	}
	if r.holders[run]++; r.holders[run] == 1 {
		r.sessions[run.Session]++
		r.ended.Remove(run)
	}
	return func() (ended, last bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.holders[run]--; r.holders[run] > 0 {
			return false, false
		}
		delete(r.holders, run)
		delete(r.kept, run)
		r.ended.Add(run, struct{}{})
		r.change()
		if r.sessions[run.Session]--; r.sessions[run.Session] > 0 {
			return true, false
		}
		delete(r.sessions, run.Session)
		return true, true
	}
}

// Keep says that a held run is handed over: its next holder is awaited with [Runs.Awaited]. It fails with not_found for
// a run that is not held.
func (r *Runs) Keep(run Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders[run] == 0 {
		return fault.New(fault.NotFound, "The run %.80s is not held in this workspace.", run.ID).With("run_id", run.ID)
	}
	if r.kept[run] == nil {
		r.kept[run] = make(chan struct{})
		r.change()
	}
	return nil
}

// change wakes [Runs.AwaitHandedOver]. The caller holds mu.
func (r *Runs) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// AwaitHandedOver waits until each held run is kept, or ctx ends.
func (r *Runs) AwaitHandedOver(ctx context.Context) {
	for {
		r.mu.Lock()
		left, changed := len(r.holders)-len(r.kept), r.changed
		r.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Awaited returns a channel that is closed when the next holder of a kept run comes, nil for a run that is not kept.
func (r *Runs) Awaited(run Run) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[run]
}

// Active reports whether a run of the session is held.
func (r *Runs) Active(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[session] > 0
}

// Check fails with unavailable for a run that has ended.
func (r *Runs) Check(run Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Contains(run) {
		return fault.New(fault.Unavailable, "The run %.80s has ended in this workspace, so the call was not made.", run.ID).
			With("subsystem", "tool-runner").With("run_id", run.ID)
	}
	return nil
}

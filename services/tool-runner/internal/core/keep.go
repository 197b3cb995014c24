package core

import (
	"sync"
	"time"

	"kaged.dev/services/tool-runner/internal/core/runs"
)

// agentOf names an agent's invocation in a run.
type agentOf struct {
	run               runs.Run
	invocation, agent string
}

// heldCages are the cages that streams hold, by their agents. It is safe for concurrent use.
type heldCages struct {
	mu   sync.Mutex // guards what follows
	held map[agentOf]*heldCage
}

// heldCage is the cage of an agent.
type heldCage struct {
	id      string
	holders int
	// kept says that its run is handed over, joined is closed when the next harness holds the cage.
	kept   bool
	joined chan struct{}
}

// enter notes a holder of an agent's cage and returns the cage's id: that of the cage that is kept for it, or the given
// one.
func (h *heldCages) enter(of agentOf, id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.held[of]; c != nil && c.kept {
		c.holders++
		return c.id
	}
	if h.held == nil {
		h.held = map[agentOf]*heldCage{}
	}
	h.held[of] = &heldCage{id: id, holders: 1}
	return id
}

// leave undoes enter.
func (h *heldCages) leave(of agentOf, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.held[of]; c != nil && c.id == id {
		if c.holders--; c.holders == 0 {
			delete(h.held, of)
		}
	}
}

// keep marks the cages of a run as kept for its next harness.
func (h *heldCages) keep(run runs.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, c := range h.held {
		if of.run == run && !c.kept {
			c.kept, c.joined = true, make(chan struct{})
		}
	}
}

// join says that the next harness holds a kept cage.
func (h *heldCages) join(of agentOf, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.held[of]; c != nil && c.id == id && c.kept && c.holders > 1 {
		c.kept = false
		close(c.joined)
	}
}

// awaited returns a channel that is closed when the next harness holds a kept cage, nil for a cage that is not kept.
func (h *heldCages) awaited(of agentOf, id string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.held[of]; c != nil && c.id == id && c.kept {
		return c.joined
	}
	return nil
}

// KeepRun keeps a held run for its next harness: until it is held again, or [Options.KeepRuns] is over, its calls,
// processes and cages are not ended. It fails with not_found for a run that is not held.
func (r *Runner) KeepRun(session, run string) error {
	of := runs.Run{Session: session, ID: run}
	if err := r.runs.Keep(of); err != nil {
		return err
	}
	r.held.keep(of)
	return nil
}

// awaitNext waits for the next holder of a run or a cage; a nil channel is of one that is not handed over.
func (r *Runner) awaitNext(next <-chan struct{}) {
	if next == nil {
		return
	}
	timer := time.NewTimer(r.keepRuns)
	defer timer.Stop()
	select {
	case <-next:
	case <-timer.C:
	case <-r.draining:
	}
}

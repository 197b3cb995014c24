package core

import (
	"context"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// leftovers are findings of cages that ended without a holder, by session, kept for the end of the session. A session
// has at most cage.MaxFindings, and there are at most maxLeftovers sessions; the rest is only logged.
type leftovers map[string][]contract.Finding

const maxLeftovers = 256

// ReleaseCage releases a cage for its holders and returns the findings in its writable folders once it has ended. A
// cage kept by detached commands is searched while it lives; later findings come from [Supervisor.TakeFound]. An
// unknown cage, or one outside w, has no findings.
func (s *Supervisor) ReleaseCage(ctx context.Context, id string, w Whose) ([]contract.Finding, error) {
	s.mu.Lock()
	c := s.held[id]
	if c == nil || !w.ends(c.spec.Owner) {
		s.mu.Unlock()
		return nil, nil
	}
	clear(c.holds)
	c.settle()
	kept := !c.over()
	c.collected = !kept
	s.mu.Unlock()
	if kept {
		return c.look(), nil
	}
	select {
	case <-c.gone:
		return c.takeFound(), nil
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
}

// TakeFound returns, once, the findings of a session's or a project's cages that ended without a holder.
func (s *Supervisor) TakeFound(w Whose) []contract.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := account(contract.Owner{SessionID: w.Session, ProjectID: w.Project})
	found := s.left[owner]
	delete(s.left, owner)
	return found
}

// Found returns, once, the findings in the cage's writable folders at its end. Call it after [Hold.Watch] has returned
// a reason.
func (h *Hold) Found() []contract.Finding {
	c := h.cage
	c.s.mu.Lock()
	collected := c.collected
	c.s.mu.Unlock()
	if collected {
		return nil // the caller of ReleaseCage gets them
	}
	return c.takeFound()
}

// Notes returns the cage's notes for the operator, one sentence each.
func (h *Hold) Notes() []string { return h.cage.view.Notes() }

func (c *Cage) takeFound() []contract.Finding {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	found := c.found
	c.found = nil
	return found
}

// look returns the findings in the writable folders since the cage began or since the last search. A cage without
// commands has none.
func (c *Cage) look() []contract.Finding {
	c.s.mu.Lock()
	before, ran := c.seen, c.ran
	c.s.mu.Unlock()
	if !ran || !before.Writes() {
		return nil
	}
	after, err := c.s.cages.Compile(c.spec.Policy, c.spec.Root)
	if err != nil {
		return []contract.Finding{
			{Kind: "policy", Text: "The writable folders cannot be searched any more: " + fault.From(err).Msg},
		}
	}
	c.s.mu.Lock()
	c.seen = after
	c.s.mu.Unlock()
	return after.Since(before)
}

// leave keeps findings at the end of a cage for later callers. The caller holds s.mu.
func (c *Cage) leave(found []contract.Finding) {
	if c.collected || len(c.holds) > 0 {
		c.found = found
		return
	}
	owner := account(c.spec.Owner)
	list, known := c.s.left[owner]
	if len(found) == 0 || !known && len(c.s.left) >= maxLeftovers {
		return
	}
	list = append(list, found...)
	c.s.left[owner] = list[:min(len(list), cage.MaxFindings)]
}

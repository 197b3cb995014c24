package core

import (
	"context"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/fault"
)

// leftovers are findings about cages that nobody held when they ended, by session, to be told at the end of the session. A
// session has at most cage.MaxFindings, and there are at most maxLeftovers sessions; what is beyond is in the log.
type leftovers map[string][]cage.Finding

const maxLeftovers = 256

// ReleaseCage lets go of a cage in place of those who hold it, and returns when it has ended, with what was found in its
// writable folders. One that detached commands keep is looked at while it lives; what they make later is told by [Supervisor.TakeFound].
// A cage that is not known, or is another session's, has nothing to say.
func (s *Supervisor) ReleaseCage(ctx context.Context, id, session string) ([]cage.Finding, error) {
	s.mu.Lock()
	c := s.held[id]
	if c == nil || c.spec.Owner.SessionID != session {
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

// TakeFound returns, once, what was found at the ends of a session's cages that nobody held any more.
func (s *Supervisor) TakeFound(session string) []cage.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.left[session]
	delete(s.left, session)
	return found
}

// Found returns, once, what was found in the cage's writable folders at its end. Only after [Hold.Watch] has returned a reason.
func (h *Hold) Found() []cage.Finding {
	c := h.cage
	c.s.mu.Lock()
	collected := c.collected
	c.s.mu.Unlock()
	if collected {
		return nil // it is told to whoever has released the cage
	}
	return c.takeFound()
}

// Notes says what an operator is to know of the cage, each a sentence.
func (h *Hold) Notes() []string { return h.cage.view.Notes() }

func (c *Cage) takeFound() []cage.Finding {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	found := c.found
	c.found = nil
	return found
}

// look returns what was made in the writable folders since the cage was made, or since they were looked at last. A cage in which
// no command ran has made nothing.
func (c *Cage) look() []cage.Finding {
	c.s.mu.Lock()
	before, ran := c.seen, c.ran
	c.s.mu.Unlock()
	if !ran || !before.Writes() {
		return nil
	}
	after, err := c.s.cages.Compile(c.spec.Policy, c.spec.Root)
	if err != nil {
		return []cage.Finding{{Kind: "policy", Text: "The writable folders cannot be looked at any more: " + fault.From(err).Msg}}
	}
	c.s.mu.Lock()
	c.seen = after
	c.s.mu.Unlock()
	return after.Since(before)
}

// leave keeps what was found at the end of a cage for those who ask. The caller holds s.mu.
func (c *Cage) leave(found []cage.Finding) {
	if c.collected || len(c.holds) > 0 {
		c.found = found
		return
	}
	session := c.spec.Owner.SessionID
	list, known := c.s.left[session]
	if len(found) == 0 || session == "" || !known && len(c.s.left) >= maxLeftovers {
		return
	}
	list = append(list, found...)
	c.s.left[session] = list[:min(len(list), cage.MaxFindings)]
}

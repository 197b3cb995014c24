package core

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Cages configures the cages of a supervisor; the zero value allows none.
type Cages struct {
	// Boxes opens the kernel-enforced cages, nil on machines without them.
	Boxes Boxes
	// Compile resolves a policy for the project at root. It fails with cage_policy_invalid.
	Compile func(policy *dsl.Cage, root string) (*cage.View, error)
}

// maxAgent is the maximum length of an agent's tree path in bytes.
const maxAgent = 1 << 10

// checkCage fails with invalid_params that names the field.
func checkCage(c contract.CageSpec) error {
	switch {
	case !ident.Valid(c.ID):
		return invalid("cage_id", "The cage id %.80q is not a ULID.", c.ID)
	case len(c.Owner.Agent) > maxAgent || !printable(c.Owner.Agent):
		return invalid("agent_path",
			"The agent's path is longer than %d bytes, or holds a NUL byte or text that is not UTF-8.", maxAgent)
	case c.Policy == nil:
		return invalid("policy", "A cage needs a policy.")
	}
	return checkOwner(c.Owner, "A cage")
}

// cageKey is equal for equal policies in the same project.
func cageKey(c contract.CageSpec) string {
	policy, err := json.Marshal(c.Policy)
	if err != nil {
		return c.ID // a policy without a JSON form equals no other
	}
	return c.Root + "\x00" + string(policy)
}

// Hold makes a cage and holds it until [Hold.Release], or joins a cage: one with the same id, or one of the same
// session, agent and policy that lives only for its detached commands. It fails with invalid_params, with
// cage_policy_invalid, with cage_unavailable, with conflict for a known id with another owner or policy, with
// rate_limited above the limit of cages, and with unavailable.
func (s *Supervisor) Hold(ctx context.Context, spec contract.CageSpec) (*Hold, error) {
	return s.HoldChecked(ctx, spec, nil)
}

// HoldChecked is [Supervisor.Hold]; it also calls checked, unless nil, when the policy can be enforced and its paths
// are open, before the cage exists. It fails with checked's error too.
func (s *Supervisor) HoldChecked(ctx context.Context, spec contract.CageSpec, checked func() error) (*Hold, error) {
	if err := checkCage(spec); err != nil {
		return nil, err
	}
	if err := s.canCage(); err != nil {
		return nil, err
	}
	for {
		h, ending, err := s.take(spec)
		if err != nil {
			return nil, err
		}
		if h == nil { // the id belongs to a cage that is ending
			select {
			case <-ending.gone:
				continue
			case <-ctx.Done():
				return nil, fault.From(ctx.Err())
			}
		}
		if err := h.await(ctx, checked); err != nil {
			return nil, err
		}
		return h, nil
	}
}

// await waits until the cage exists. It releases the hold if the cage could not be made.
func (h *Hold) await(ctx context.Context, checked func() error) error {
	early := h.cage.checked
	if checked == nil {
		early = nil
	}
	for {
		select {
		case <-h.cage.opened:
			return h.cage.err
		case <-early:
			early = nil
			if err := checked(); err != nil {
				h.Release()
				return err
			}
		case <-ctx.Done():
			h.Release()
			return fault.From(ctx.Err())
		}
	}
}

// canCage fails with cage_unavailable if no cage can be made.
func (s *Supervisor) canCage() error {
	if s.limits.NoSandbox {
		return fault.New(fault.CageUnavailable, "This supervisor was started with --no-sandbox, which makes no cages.")
	}
	if s.cages.Boxes == nil {
		return fault.New(
			fault.CageUnavailable,
			"A cage is asked for and this supervisor cannot enforce one: %s; set cage: disabled, or start with --no-sandbox.",
			noBoxes,
		)
	}
	return nil
}

// noBoxes is the reason on machines without cages.
const noBoxes = "cages need Linux, and a kaged that was built for it"

// take returns a hold on the cage of spec, making the cage if it is new. It returns the cage itself while that is
// ending.
func (s *Supervisor) take(spec contract.CageSpec) (*Hold, *Cage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cageKey(spec)
	c := s.held[spec.ID]
	if c != nil {
		switch {
		case !sameOwner(c.spec.Owner, spec.Owner):
			return nil, nil, fault.New(fault.Conflict, "The cage id %s is another owner's.", spec.ID).With("cage_id", spec.ID)
		case c.over():
			return nil, c, nil
		case c.key != key || c.spec.Owner.Agent != spec.Owner.Agent:
			return nil, nil, fault.New(fault.Conflict, "The cage %s has another policy or another agent.", spec.ID).
				With("cage_id", spec.ID)
		}
	} else {
		c = s.idle(spec, key)
	}
	if c != nil {
		c.restart()
		return c.hold(), nil, nil
	}
	if s.closed {
		return nil, nil, stopping()
	}
	if len(s.held) >= s.limits.MaxCages {
		return nil, nil,
			fault.New(fault.RateLimited, "There are %d cages already, which is as many as there may be at once.", len(s.held)).
				With("retry_after_ms", 1000)
	}
	c = newCage(s, spec, key)
	s.held[spec.ID] = c
	s.wg.Add(1)
	go c.keep()
	return c.hold(), nil, nil
}

// idle returns a cage for spec that lives only for its detached commands. The caller holds s.mu.
func (s *Supervisor) idle(spec contract.CageSpec, key string) *Cage {
	var oldest *Cage
	for _, c := range s.held {
		if c.over() || len(c.holds) > 0 || c.key != key || c.spec.Owner.Agent != spec.Owner.Agent ||
			!sameOwner(c.spec.Owner, spec.Owner) {
			continue
		}
		if oldest == nil || c.spec.ID < oldest.spec.ID {
			oldest = c
		}
	}
	return oldest
}

// enter returns the spawner of a command: its cage's Box, opened if it is new, or the spawner of uncaged commands. Each
// enter needs a leave.
func (s *Supervisor) enter(ctx context.Context, e *Exec) (Spawner, error) {
	id := e.command.CageID
	switch {
	case s.limits.NoSandbox || e.command.Cage == nil && id == "":
		return s.spawner, nil
	case id == "":
		policy := *e.command.Cage
		policy.State = "ephemeral" // persistent state belongs to an agent
		own, err := s.Hold(ctx, contract.CageSpec{
			ID: ident.New(), Owner: e.command.Owner, Policy: &policy, Root: e.command.Root,
		})
		if err != nil {
			return nil, err
		}
		e.own, id = own, own.cage.spec.ID
	}
	c, err := s.join(e, id)
	if err != nil {
		s.leave(e)
		return nil, err
	}
	select {
	case <-c.opened:
		if c.err == nil {
			return c.box, nil
		}
		err = c.err
	case <-ctx.Done():
		err = fault.From(ctx.Err())
	}
	s.leave(e)
	return nil, err
}

// join adds a command to a cage, which then does not end before the command.
func (s *Supervisor) join(e *Exec, id string) (*Cage, error) {
	if err := s.canCage(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.held[id]
	switch {
	case c == nil || c.over():
		return nil, fault.New(fault.CageUnavailable, "The cage %.80s has ended; a command needs one that lives.", id).
			With("cage_id", id)
	case !mayEnter(c.spec.Owner, e.command.Owner):
		return nil, fault.New(fault.Conflict, "The cage %s is another owner's.", id).With("cage_id", id)
	case e.own == nil && e.command.Cage != nil && c.key != cageKey(contract.CageSpec{
		ID: id, Policy: e.command.Cage, Root: e.command.Root,
	}):
		return nil, fault.New(fault.Conflict, "The cage %s has another policy than the command asks for.", id).
			With("cage_id", id)
	}
	e.cage, c.ran = c, true
	c.commands[e] = struct{}{}
	return c, nil
}

// leave undoes enter. When it returns, a cage made for only this command has ended.
func (s *Supervisor) leave(e *Exec) {
	s.mu.Lock()
	if c := e.cage; c != nil {
		delete(c.commands, e)
		c.settle()
	}
	s.mu.Unlock()
	if e.own != nil {
		s.mu.Lock()
		e.own.cage.collected = true
		s.mu.Unlock()
		e.own.Release()
		<-e.own.cage.gone
		e.found = e.own.cage.takeFound()
	}
}

// CountCages returns the number of living, starting and ending cages.
func (s *Supervisor) CountCages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// ListCages returns the cages selected by w, oldest first, with their usage.
func (s *Supervisor) ListCages(w Whose) []contract.RunningCage {
	list := []contract.RunningCage{}
	for _, c := range s.findCages(w.shows) {
		select {
		case <-c.opened:
			if c.err != nil {
				continue
			}
			info := c.info()
			usage, processes := c.box.Usage()
			info.Use, info.Processes = usage.use(), int32(processes)
			list = append(list, info)
		default: // still being made
		}
	}
	slices.SortFunc(list, func(a, b contract.RunningCage) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// ProbeCages returns the machine's capabilities for cages.
func (s *Supervisor) ProbeCages(ctx context.Context) Report {
	if s.cages.Boxes == nil {
		return Report{Unavailable: noBoxes}
	}
	return s.cages.Boxes.Probe(ctx)
}

func (s *Supervisor) findCages(match func(contract.Owner) bool) []*Cage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Cage
	for _, c := range s.held {
		if match(c.spec.Owner) {
			found = append(found, c)
		}
	}
	return found
}

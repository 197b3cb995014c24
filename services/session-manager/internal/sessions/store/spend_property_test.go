package store_test

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	projectsstore "kaged.dev/services/session-manager/internal/projects/store"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store"
)

// economy is an operator with sessions, and the use of models that the test expects.
type economy struct {
	t        *rapid.T
	s        *store.Sessions
	owner    string
	operator bounded
	since    int64 // the begin of the operator's period
	clock    int64
	homes    []*home
}

// bounded is a budget. Until its limit changes, its use stays within most and the overdrafts of single calls.
type bounded struct {
	contract.Budget
	most, overdrawn contract.Amount
}

// home is a session with its holder, the tree of agents of its run, and all calls of its runs.
type home struct {
	id    string
	fence lease.Fence
	// run is empty between runs. dead says that the run's process is killed and the next holder has not recovered it.
	run    string
	dead   bool
	budget bounded
	tree   []node
	calls  []*call
}

// node is an invocation of an agent.
type node struct{ id, path string }

// call is a granted model call.
type call struct {
	claim              record.Claim
	used               contract.Amount
	settled, estimated bool
}

// use returns the expected sums of a home's calls, of those since a time.
func (h *home) use(since int64) (spent, reserved contract.Amount, estimated int64) {
	for _, c := range h.calls {
		switch {
		case !c.settled:
			reserved = reserved.Add(c.claim.Reserved)
		case c.claim.At >= since:
			spent = spent.Add(c.used)
			if c.estimated {
				estimated++
			}
		}
	}
	return spent, reserved, estimated
}

// use is [home.use] over all homes.
func (e *economy) use() (spent, reserved contract.Amount, estimated int64) {
	for _, h := range e.homes {
		s, r, n := h.use(e.since)
		spent, reserved, estimated = spent.Add(s), reserved.Add(r), estimated+n
	}
	return spent, reserved, estimated
}

// within reports whether each resource of use is at most that of limit, where 0 is no limit.
func within(limit, use contract.Amount) bool {
	fits := func(limit, use int64) bool { return limit == 0 || use <= limit }
	return fits(limit.NanoUSD, use.NanoUSD) && fits(limit.Tokens, use.Tokens) && fits(limit.Calls, use.Calls)
}

// allows reports whether the budget allows a claim beside a use.
func (b bounded) allows(c record.Claim, spent, reserved contract.Amount) bool {
	return !b.Set() ||
		(b.Limit.NanoUSD == 0 || !c.Unpriced || b.AllowUnpriced) && within(b.Limit, spent.Add(reserved).Add(c.Reserved))
}

// limited sets a limit.
func (b *bounded) limited(to contract.Budget, spent, reserved contract.Amount) {
	most := func(limit, use int64) int64 {
		if limit == 0 {
			return 0
		}
		return max(limit, use)
	}
	use := spent.Add(reserved)
	*b = bounded{Budget: to, most: contract.Amount{
		NanoUSD: most(
			to.Limit.NanoUSD,
			use.NanoUSD,
		), Tokens: most(to.Limit.Tokens, use.Tokens), Calls: most(to.Limit.Calls, use.Calls),
	}}
}

// settles adds the overdraft of a settled call.
func (b *bounded) settles(c *call) {
	over := c.used.Sub(c.claim.Reserved)
	b.overdrawn = b.overdrawn.Add(contract.Amount{
		NanoUSD: max(over.NanoUSD, 0), Tokens: max(over.Tokens, 0), Calls: max(over.Calls, 0),
	})
}

// holds fails the test unless the use is within the budget.
func (b bounded) holds(t *rapid.T, who string, spent, reserved contract.Amount) {
	t.Helper()
	if use := spent.Add(reserved).Sub(b.overdrawn); !within(b.most, use) {
		t.Fatalf(
			"%s has spent %+v and reserved %+v of %+v, overdrawn by %+v",
			who,
			spent,
			reserved,
			b.Limit,
			b.overdrawn,
		)
	}
}

func (e *economy) drawBudget(name string) contract.Budget {
	of := func(most int64) int64 {
		return max(0, rapid.Int64Range(-most/2, most).Draw(e.t, name))
	}
	return contract.Budget{
		Limit: contract.Amount{
			NanoUSD: of(900),
			Tokens:  of(900),
			Calls:   of(12),
		}, AllowUnpriced: rapid.Bool().Draw(e.t, "unpriced"),
	}
}

func newEconomy(t *rapid.T, s *store.Sessions, register func(owner string) error) *economy {
	e := &economy{t: t, s: s, owner: ident.New(), clock: 100}
	if err := register(e.owner); err != nil {
		t.Fatal(err)
	}
	e.operator.limited(e.drawBudget("operator"), contract.Amount{}, contract.Amount{})
	for range rapid.IntRange(1, 3).Draw(t, "sessions") {
		n := record.Session{
			ID: ident.New(), Owner: e.owner, ProjectID: "music", State: record.Idle, CompiledHash: "hash", ProjectPath: "/music",
			Budget: e.drawBudget("session"), CreatedAt: 100, UpdatedAt: 100,
		}
		if err := s.Create(t.Context(), n, "", created(n)); err != nil {
			t.Fatal(err)
		}
		h := &home{id: n.ID}
		h.budget.limited(n.Budget, contract.Amount{}, contract.Amount{})
		e.homes = append(e.homes, h)
		e.take(h)
		e.begin(h)
	}
	return e
}

// take gives a home to another process.
func (e *economy) take(h *home) {
	taken, err := e.s.Take(e.t.Context(), h.id, lease.Holder{Instance: ident.New(), Node: "n", Address: "a"}, 0)
	if err != nil {
		e.t.Fatal(err)
	}
	h.fence = taken.Fence
}

func (e *economy) apply(h *home, c record.Change) {
	e.t.Helper()
	c.At = e.clock
	if err := e.s.Apply(e.t.Context(), h.fence, c, false); err != nil {
		e.t.Fatal(err)
	}
}

func (e *economy) begin(h *home) {
	run := record.Run{
		ID: ident.New(), SessionID: h.id, Owner: e.owner, ProjectID: "music", TriggerMessageID: ident.New(),
		MessageID: ident.New(), State: record.RunRunning, CompiledHash: "hash", CreatedAt: e.clock, StartedAt: e.clock,
	}
	e.apply(h, record.Change{NewRun: &run, Session: record.Patch{State: record.Running}})
	h.run, h.dead, h.tree = run.ID, false, []node{{"", "primary"}}
}

// end ends a home's run. Its calls in flight count with their reservations.
func (e *economy) end(h *home) {
	e.apply(h, record.Change{Session: record.Patch{State: record.Idle}, EndRun: &record.RunEnd{
		RunID: h.run, State: record.RunFailed, StopReason: llm.StopError,
	}})
	h.run, h.dead = "", false
	for _, c := range h.calls {
		if !c.settled {
			c.settled, c.estimated, c.used = true, true, c.claim.Reserved
		}
	}
}

func (e *economy) drawClaim(h *home) record.Claim {
	at := rapid.SampledFrom(h.tree).Draw(e.t, "agent")
	e.clock++
	n := 1
	for _, c := range h.calls {
		if c.claim.RunID == h.run && c.claim.InvocationID == at.id {
			n++
		}
	}
	return record.Claim{
		Operator: e.operator.Budget, Since: e.since, Unpriced: rapid.IntRange(0, 7).Draw(e.t, "priced") == 0,
		Spend: record.Spend{
			RunID: h.run, InvocationID: at.id, Call: n, SessionID: h.id, Owner: e.owner, AgentPath: at.path, Model: "p:m",
			At: e.clock,
			Reserved: contract.Amount{
				NanoUSD: rapid.Int64Range(0, 200).
					Draw(e.t, "usd"),
				Tokens: rapid.Int64Range(1, 200).Draw(e.t, "tokens"), Calls: 1,
			},
		},
	}
}

// judged records a verdict. The claim must have been allowed exactly if allowed is true.
func (e *economy) judged(h *home, c record.Claim, v record.Verdict, allowed bool) {
	e.t.Helper()
	if allowed != (v.Refused == nil) {
		e.t.Fatalf("a claim of %+v was refused by %v, want it allowed: %t", c.Reserved, v.Refused, allowed)
	}
	if allowed {
		h.calls = append(h.calls, &call{claim: c})
	}
}

// claim claims one call. The states in the verdict are the expected ones.
func (e *economy) claim(h *home) {
	c := e.drawClaim(h)
	spent, reserved, _ := h.use(0)
	all, allReserved, _ := e.use()
	v, err := e.s.Reserve(e.t.Context(), h.fence, c)
	if err != nil {
		e.t.Fatal(err)
	}
	e.judged(h, c, v, h.budget.allows(c, spent, reserved) && e.operator.allows(c, all, allReserved))
	for _, state := range v.States {
		want, wantReserved := spent, reserved
		if state.Scope == contract.OperatorBudget {
			want, wantReserved = all, allReserved
		}
		if got := state.Reserved; state.Spent != want || got != wantReserved && got != wantReserved.Add(c.Reserved) {
			e.t.Fatalf(
				"%s: spent %+v and reserved %+v, want %+v and %+v",
				state.Scope,
				state.Spent,
				got,
				want,
				wantReserved,
			)
		}
	}
	if v.Refused == nil && rapid.Bool().Draw(e.t, "again") { // the answer was lost
		if v, err := e.s.Reserve(e.t.Context(), h.fence, c); err != nil || v.Refused != nil {
			e.t.Fatalf("again: %v, %v", v.Refused, err)
		}
	}
}

// together claims calls of several agents at the same time. A refused one does not fit beside those that were granted.
func (e *economy) together(homes []*home) {
	type answer struct {
		home  *home
		claim record.Claim
		record.Verdict
	}
	var answers []*answer
	for range rapid.IntRange(2, 5).Draw(e.t, "together") {
		h := rapid.SampledFrom(homes).Draw(e.t, "of")
		h.tree = append(h.tree, node{ident.New(), "primary.subagents.x"}) // each agent has one call in flight
		one := h.tree[len(h.tree)-1]
		c := e.drawClaim(h)
		c.InvocationID, c.AgentPath, c.Call = one.id, one.path, 1
		answers = append(answers, &answer{home: h, claim: c})
	}
	var group errgroup.Group
	for _, a := range answers {
		group.Go(func() (err error) {
			a.Verdict, err = e.s.Reserve(e.t.Context(), a.home.fence, a.claim)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		e.t.Fatal(err)
	}
	for _, a := range answers {
		if a.Refused == nil {
			e.judged(a.home, a.claim, a.Verdict, true)
		}
	}
	for _, a := range answers {
		spent, reserved, _ := a.home.use(0)
		all, allReserved, _ := e.use()
		if a.Refused != nil && a.home.budget.allows(a.claim, spent, reserved) &&
			e.operator.allows(a.claim, all, allReserved) {
			e.t.Fatalf("a claim of %+v was refused by %v, and fits", a.claim.Reserved, a.Refused)
		}
	}
}

// settle settles a call in flight, twice: only the first time counts.
func (e *economy) settle(h *home) {
	var flying []*call
	for _, c := range h.calls {
		if !c.settled {
			flying = append(flying, c)
		}
	}
	if len(flying) == 0 {
		return
	}
	c := rapid.SampledFrom(flying).Draw(e.t, "call")
	c.settled, c.used = true, contract.Amount{
		NanoUSD: rapid.Int64Range(0, 260).
			Draw(e.t, "used usd"),
		Tokens: rapid.Int64Range(0, 260).Draw(e.t, "used tokens"), Calls: 1,
	}
	for _, used := range []contract.Amount{c.used, {NanoUSD: 7777}} {
		e.apply(h, record.Change{Settled: []record.Settlement{{
			RunID: c.claim.RunID, InvocationID: c.claim.InvocationID, Call: c.claim.Call, Used: used,
		}}})
	}
	h.budget.settles(c)
	if c.claim.At >= e.since {
		e.operator.settles(c)
	}
}

// kill gives the home of a killed process to the next one. The old one's late writes are refused.
func (e *economy) kill(h *home) {
	late, old := e.drawClaim(h), h.fence
	e.take(h)
	h.dead = true
	if _, err := e.s.Reserve(e.t.Context(), old, late); !errors.Is(err, fault.StaleLease) {
		e.t.Fatalf("a dead process reserves: %v", err)
	}
	for _, c := range h.calls {
		if c.settled {
			continue
		}
		change := record.Change{At: e.clock, Settled: []record.Settlement{{
			RunID: c.claim.RunID, InvocationID: c.claim.InvocationID, Call: c.claim.Call, Used: contract.Amount{Calls: 1},
		}}}
		if err := e.s.Apply(e.t.Context(), old, change, false); !errors.Is(err, fault.StaleLease) {
			e.t.Fatalf("a dead process settles: %v", err)
		}
	}
}

// step makes one random step of a random session.
func (e *economy) step() {
	h := rapid.SampledFrom(e.homes).Draw(e.t, "session")
	var working []*home
	for _, h := range e.homes {
		if h.run != "" && !h.dead {
			working = append(working, h)
		}
	}
	what := rapid.SampledFrom([]string{
		"claim", "claim", "claim", "claim", "settle", "settle", "settle", "call an agent", "call an agent", "together",
		"kill", "hand over", "end", "limit", "limit the operator", "period",
	}).Draw(e.t, "step")
	switch {
	case h.run == "":
		e.begin(h)
	case h.dead:
		e.end(h) // the recovery
	case what == "claim":
		e.claim(h)
	case what == "settle":
		e.settle(h)
	case what == "call an agent":
		up := rapid.SampledFrom(h.tree).Draw(e.t, "caller")
		h.tree = append(h.tree, node{ident.New(), fmt.Sprintf("%s.subagents.a%d", up.path, len(h.tree))})
	case what == "together":
		e.together(working)
	case what == "kill":
		e.kill(h)
	case what == "hand over":
		e.take(h) // the run goes on with its calls in flight
	case what == "end":
		e.end(h)
	case what == "limit":
		to := e.drawBudget("session")
		e.apply(h, record.Change{Session: record.Patch{Budget: &to}})
		spent, reserved, _ := h.use(0)
		h.budget.limited(to, spent, reserved)
	default:
		to := e.operator.Budget
		if what == "period" {
			e.since = e.clock + 1
		} else {
			to = e.drawBudget("operator")
		}
		spent, reserved, _ := e.use()
		e.operator.limited(to, spent, reserved)
	}
}

// check compares the stored sums with the expected ones, and these with the budgets.
func (e *economy) check() {
	e.t.Helper()
	for i, h := range e.homes {
		spent, reserved, _ := h.use(0)
		u, err := e.s.Use(e.t.Context(), e.owner, h.id)
		if err != nil || u.Spent() != spent || u.Reserved != reserved {
			e.t.Fatalf(
				"session %d has spent %+v and reserved %+v, want %+v and %+v (%v)",
				i,
				u.Spent(),
				u.Reserved,
				spent,
				reserved,
				err,
			)
		}
		h.budget.holds(e.t, fmt.Sprint("session ", i), spent, reserved)
	}
	spent, reserved, estimated := e.use()
	total, _, err := e.s.Spending(e.t.Context(), e.owner, e.since, 10)
	if err != nil || total.Amount != spent || total.Estimated != estimated {
		e.t.Fatalf("the operator has spent %+v, want %+v with %d estimated (%v)", total, spent, estimated, err)
	}
	e.operator.holds(e.t, "the operator", spent, reserved)
}

// For any trees of agents, any budgets and any interleaving of claims, settlements, changed limits, hand-overs, kills
// and recoveries: a claim is allowed exactly if spent, reserved and wanted fit into the budgets of its session and its
// operator, and a budget is overdrawn by at most the use of calls beyond their reservations. Each call counts once; a
// call in flight at a kill counts with its reservation, marked as estimated.
func TestBudgetsHoldInAnyTree(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	register := func(owner string) error {
		_, _, err := projectsstore.NewProjects(pool).Save(t.Context(), projects.Project{
			Owner: owner, ID: "music", Path: "/music", State: projects.Ready, RegisteredAt: 10, UpdatedAt: 11,
		}, "", nil, func(bool) []audit.Record { return nil })
		return err
	}
	rapid.Check(t, func(t *rapid.T) {
		e := newEconomy(t, s, register)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			e.step()
		}
		e.check()
	})
}

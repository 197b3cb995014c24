package sessionmanager

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// wants requests a model call of some tokens without waiting for the answer.
func (p *play) wants(n int32, tokens int64) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallWanted{CallWanted: &harnessv1.CallWanted{
		Call: n, AgentPath: "primary", Model: "fake:one",
		Amount: &harnessv1.Amount{NanoUsd: 10 * tokens, Tokens: tokens, Calls: 1},
	}}})
}

// claims requests a model call and returns the answer.
func (p *play) claims(n int32, tokens int64) *harnessv1.CallGranted {
	p.wants(n, tokens)
	select {
	case g := <-p.granted:
		return g
	case <-p.stream.Context().Done():
		panic(errGone)
	}
}

// settles reports the use of a call.
func (p *play) settles(n int32, tokens int64, ofTurn bool) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_CallSettled{CallSettled: &harnessv1.CallSettled{
		Call: n, Amount: &harnessv1.Amount{NanoUsd: 10 * tokens, Tokens: tokens, Calls: 1}, OfTurn: ofTurn,
	}}})
}

// budgeted sets the budget of a session.
func (n *node) budgeted(user, session string, budget map[string]any) (*apiv1.Session, error) {
	n.w.t.Helper()
	value, err := structpb.NewValue(budget)
	if err != nil {
		n.w.t.Fatal(err)
	}
	resp, err := n.Sessions.UpdateSession(as(n.w.t, user), &apiv1.UpdateSessionRequest{Id: session, Budget: value})
	return resp.GetSession(), err
}

// A session's budget is granted call by call: use and reservations together never exceed it. The refusal names the
// agents that spent the budget, the session shows its budget, and null clears it.
func TestTheBudgetOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("one")
	s := n.session("ada")
	if got, err := n.budgeted("ada", s, map[string]any{"tokens": 100}); err != nil ||
		got.GetBudget().GetLimit().GetTokens() != 100 {
		t.Fatalf("%v, %v", got, err)
	}
	var refused *harnessv1.CallGranted
	w.harness.expect(func(p *play) {
		if !p.start.GetMetered() {
			t.Error("the run is not metered")
		}
		p.model()
		if g := p.claims(1, 60); g.GetError() != nil {
			t.Errorf("60 of 100: %v", g)
		}
		if g := p.claims(2, 41); g.GetError() == nil || !g.GetWaits() {
			t.Errorf("41 beside 60 of 100: %v", g)
		}
		p.settles(1, 30, true)
		p.turn(1, false, text("Hello"))
		if g := p.claims(2, 70); g.GetError() != nil {
			t.Errorf("70 beside 30 of 100: %v", g)
		}
		p.settles(2, 50, false)
		refused = p.claims(3, 21)
		p.complete(1)
	})
	run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	if run.GetOutcome() != "completed" {
		t.Fatal(run)
	}
	f := fault.FromProto(refused.GetError())
	if f.Code != fault.BudgetExceeded || refused.GetWaits() || f.Details["scope"] != "session" ||
		f.Msg != "The session's budget of 100 tokens is used up: 80 tokens spent, and this call needs up to 21 tokens. "+
			"Spent by primary 80 tokens. The limit is the session's: `kaged run --session ID --budget-tokens` sets another." {
		t.Errorf("the refusal is %v", f)
	}
	b := n.get("ada", s).GetBudget()
	if b.GetSpent().GetTokens() != 80 || b.GetSpent().GetCalls() != 2 || b.GetReserved().GetTokens() != 0 ||
		len(b.GetByAgent()) != 1 || b.GetByAgent()[0].GetAgentPath() != "primary" {
		t.Errorf("the session shows %v", b)
	}
	events := w.await(s, "events", "session.state")
	if !strings.Contains(strings.Join(events, "\n"), `"scope":"session","limit":{"tokens":100}`) {
		t.Errorf("events = %v", events)
	}
	resp, err := n.Sessions.UpdateSession(as(t, "ada"),
		&apiv1.UpdateSessionRequest{Id: s, Budget: structpb.NewNullValue()})
	if err != nil || resp.GetSession().GetBudget().GetLimit() != nil {
		t.Errorf("cleared: %v, %v", resp, err)
	}
}

// A run ends when its session's budget of working time is used up, and later runs cannot make model calls until the
// budget is raised.
func TestTheTimeOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("one")
	s := n.session("ada")
	if _, err := n.budgeted("ada", s, map[string]any{"walltime_ms": 3_600_000}); err != nil {
		t.Fatal(err)
	}
	w.harness.expect(func(p *play) {
		p.model()
		if g := p.claims(1, 1); g.GetError() != nil {
			t.Errorf("at the beginning: %v", g)
		}
		p.settles(1, 1, false)
		if _, err := n.budgeted("ada", s, map[string]any{"walltime_ms": 1}); err != nil {
			t.Error(err)
		}
		if g := p.claims(2, 1); fault.FromProto(g.GetError()).Code != fault.BudgetExceeded {
			t.Errorf("when the time is over: %v", g)
		}
		p.hang()
		p.finish(&harnessv1.RunFinished{
			Outcome: harnessv1.Outcome_OUTCOME_CANCELLED, StopReason: harnessv1.StopReason_STOP_REASON_ABORTED,
		})
	})
	run := n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	f := fault.FromProto(run.GetError())
	if run.GetOutcome() != "failed" || f.Code != fault.BudgetExceeded || f.Details["scope"] != "session" ||
		f.Details["resource"] != "walltime" || f.Msg != "The session's budget of 1ms is used up: 1ms spent. "+
		"The limit is the session's: `kaged run --session ID --budget-walltime` sets another." {
		t.Errorf("the run = %v", run)
	}
	if b := n.get("ada", s).GetBudget(); b.GetSpent().GetWalltimeMs() < 1 || b.GetLimit().GetWalltimeMs() != 1 {
		t.Errorf("the session shows %v", b)
	}
	if records := n.recorded("ada", s); times(records, "budget.refused") != 1 {
		t.Errorf("records = %v", records)
	}
	answers := make(chan *harnessv1.CallGranted, 2)
	again := func(p *play) {
		p.model()
		answers <- p.claims(1, 1)
		p.complete(0)
	}
	w.harness.expect(again)
	n.run("ada", s, n.post("ada", s, "Again.").GetRunId())
	if g := <-answers; fault.FromProto(g.GetError()).Code != fault.BudgetExceeded || g.GetWaits() {
		t.Errorf("when the time is over: %v", g)
	}
	if _, err := n.budgeted("ada", s, map[string]any{"walltime_ms": 3_600_000}); err != nil {
		t.Fatal(err)
	}
	w.harness.expect(again)
	n.run("ada", s, n.post("ada", s, "And again.").GetRunId())
	if g := <-answers; g.GetError() != nil {
		t.Errorf("with more time: %v", g)
	}
	events := strings.Join(w.await(s, "events", "session.state"), "\n")
	if !strings.Contains(events, `"scope":"session","limit":{"walltime_ms":3600000}`) {
		t.Errorf("events = %v", events)
	}
}

// An invalid budget is refused.
func TestNoBudgetOfASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("one")
	s := n.session("ada")
	for name, budget := range map[string]map[string]any{
		"empty": {}, "zero": {"usd": 0}, "a part of a token": {"tokens": 1.5}, "a text": {"calls": "9"},
		"unknown": {"eur": 5},
		"a word":  {"usd": 1, "unpriced": "maybe"}, "no limit": {"unpriced": "allow"},
		"no time": {"walltime_ms": 0}, "a time in words": {"walltime_ms": "30m"},
	} {
		if _, err := n.budgeted("ada", s, budget); !errors.Is(err, fault.ValidationFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The budget of an operator limits all sessions together, also if they request calls at the same time.
func TestTheBudgetOfAnOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config, err := os.ReadFile(w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.configure(string(config) + "\n[budget]\ntokens = 100\nper = \"month\"\n")
	n := w.start("one")
	const sessions = 8
	var mu sync.Mutex
	var all sync.WaitGroup
	all.Add(sessions)
	grants := 0
	var runs [][2]string
	for range sessions {
		w.harness.expect(func(p *play) {
			g := p.claims(1, 30)
			mu.Lock()
			if g.GetError() == nil {
				grants++
			} else if said := fault.FromProto(g.GetError()).Msg; !strings.Contains(said, "of 100 tokens per month is used up") ||
				!strings.Contains(said, "The limit is tokens of [budget] in local.toml") {
				t.Errorf("a refusal says %q", said)
			}
			mu.Unlock()
			all.Done()
			all.Wait() // no call is settled before all are decided
			p.model()
			p.turn(1, false, text("Hello"))
			p.complete(1)
		})
	}
	for range sessions {
		s := n.session("ada")
		runs = append(runs, [2]string{s, n.post("ada", s, "Go.").GetRunId()})
	}
	spent := int64(0)
	for _, r := range runs {
		n.run("ada", r[0], r[1])
		spent += n.get("ada", r[0]).GetBudget().GetSpent().GetTokens()
	}
	if grants != 3 {
		t.Errorf("%d calls of 30 tokens were granted of 100", grants)
	}
	if spent != 90 {
		t.Errorf("calls that were never settled count as %d tokens, want what was reserved", spent)
	}
}

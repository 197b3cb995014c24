package store_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/store"
)

// ledger is the use of models by session, computed by the test.
type ledger struct {
	mu   sync.Mutex // guards used
	used map[string]contract.Amount
}

func (l *ledger) add(session string, a contract.Amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[session] = l.used[session].Add(a)
}

// spender is an agent of a run that reserves calls and settles most of them; the others are still in flight when
// the run is cut off.
type spender struct {
	s       *store.Sessions
	fence   lease.Fence
	random  *rand.Rand
	ledger  *ledger
	claim   record.Claim
	granted int
}

func (p *spender) work(t *testing.T) error {
	for p.claim.Call = 1; p.claim.Call <= 6; p.claim.Call++ {
		p.claim.Reserved = contract.Amount{NanoUSD: 1 + p.random.Int64N(200), Tokens: 1 + p.random.Int64N(300), Calls: 1}
		v, err := p.s.Reserve(t.Context(), p.fence, p.claim)
		if err != nil {
			return err
		}
		if v.Refused != nil {
			continue
		}
		p.granted++
		for _, state := range v.States {
			if over := contract.Over(state.Limit, state.Spent, state.Reserved, contract.Amount{}); over != nil {
				t.Errorf("granted with spent %+v and reserved %+v under %+v", state.Spent, state.Reserved, state.Limit)
			}
		}
		// A retry after a lost answer is allowed again.
		if again, err := p.s.Reserve(t.Context(), p.fence, p.claim); err != nil || again.Refused != nil {
			return fmt.Errorf("again: %+v, %w", again, err)
		}
		if p.random.IntN(5) == 0 {
			p.ledger.add(p.claim.SessionID, p.claim.Reserved)
			continue
		}
		used := contract.Amount{NanoUSD: p.random.Int64N(220), Tokens: p.random.Int64N(330), Calls: 1}
		p.ledger.add(p.claim.SessionID, used)
		for _, u := range []contract.Amount{used, {Tokens: 999}} { // only the first settlement counts
			change := record.Change{At: 210, Settled: []record.Settlement{{
				RunID: p.claim.RunID, InvocationID: p.claim.InvocationID, Call: p.claim.Call, Used: u,
			}}}
			if err := p.s.Apply(t.Context(), p.fence, change, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Agents work in parallel in several sessions of an operator, and their runs are cut off at any point. A call is
// allowed only if spent and reserved stay within the budgets of its session and its operator. Each settled call
// counts once with its use, each call in flight once with its reservation.
func TestBudgetsHoldOverCrashes(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	random := rand.New(rand.NewPCG(11, 63))
	book := &ledger{used: map[string]contract.Amount{}}
	operator := contract.Budget{Limit: contract.Amount{NanoUSD: 9_000, Calls: 90}}
	type worker struct {
		record.Session
		lease.Fence
	}
	var sessions []worker
	for range 3 {
		n := addOne(t, s, func(n *record.Session) {
			n.Budget = contract.Budget{Limit: contract.Amount{Tokens: 2_000 + random.Int64N(4_000), Calls: 40}}
		})
		sessions = append(sessions, worker{n, take(t, s, n.ID, "i", 60_000).Fence})
	}
	granted := 0
	for range 4 {
		var group errgroup.Group
		var agents []*spender
		runs := map[string]worker{}
		for _, n := range sessions {
			run := record.Run{
				ID: ident.New(), SessionID: n.ID, Owner: "ada", ProjectID: "music", TriggerMessageID: ident.New(),
				MessageID: ident.New(), State: record.RunRunning, CompiledHash: "hash", CreatedAt: 200, StartedAt: 200,
			}
			begin := record.Change{At: 200, NewRun: &run, Session: record.Patch{State: record.Running}}
			if err := s.Apply(t.Context(), n.Fence, begin, false); err != nil {
				t.Fatal(err)
			}
			runs[run.ID] = n
			for i := range 3 {
				p := &spender{
					s: s, fence: n.Fence, ledger: book, random: rand.New(rand.NewPCG(random.Uint64(), 1)),
					claim: record.Claim{Operator: operator, Spend: record.Spend{
						RunID: run.ID, InvocationID: fmt.Sprint(i), SessionID: n.ID, Owner: "ada", Model: "p:m", At: 200,
						AgentPath: fmt.Sprint("primary.subagents.a", i),
					}},
				}
				agents = append(agents, p)
				group.Go(func() error { return p.work(t) })
			}
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for id, n := range runs { // like the next holder of the session
			end := record.Change{At: 220, Session: record.Patch{State: record.Idle}, EndRun: &record.RunEnd{
				RunID: id, State: record.RunFailed, StopReason: llm.StopError,
			}}
			if err := s.Apply(t.Context(), n.Fence, end, false); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range agents {
			granted += p.granted
		}
		var all contract.Amount
		for _, n := range sessions {
			u, err := s.Use(t.Context(), "ada", n.ID)
			if err != nil || u.Spent() != book.used[n.ID] || u.Reserved != (contract.Amount{}) {
				t.Errorf("the session used %+v and reserved %+v, want %+v (%v)", u.Spent(), u.Reserved, book.used[n.ID], err)
			}
			all = all.Add(book.used[n.ID])
		}
		total, _, err := s.Spending(t.Context(), "ada", 0, 10)
		if err != nil || total.Amount != all {
			t.Errorf("the operator used %+v, want %+v (%v)", total.Amount, all, err)
		}
	}
	if granted < 40 || granted > 90 {
		t.Errorf("%d calls were granted, of which budgets allow 90", granted)
	}
}

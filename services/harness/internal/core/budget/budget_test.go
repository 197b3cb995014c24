package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tokens(n int64) Call { return Call{Wanted: contract.Amount{Tokens: n, Calls: 1}} }

// reserve reserves tokens or fails the test.
func reserve(t *testing.T, a *Account, n int64) *Reservation {
	t.Helper()
	r, err := a.Reserve(t.Context(), tokens(n))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// model is an account with the amounts that the test expects.
type model struct {
	*Account
	up              *model
	spent, reserved contract.Amount
}

// In any tree, with any interleaving of calls and any use, a call is admitted only if spent, reserved and wanted
// together fit into the limits of its account and of each above it. Its use is counted once in each of them.
func TestTheInequalityHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		limit := func() *dsl.Budget {
			if r.IntN(3) == 0 {
				return nil
			}
			return &dsl.Budget{NanoUSD: r.Int64N(2000), Tokens: r.Int64N(3000), Calls: r.Int64N(30)}
		}
		book := NewBook()
		all := []*model{{Account: book.Open(nil, "a", limit())}}
		type flight struct {
			*Reservation
			of *model
		}
		var flying []flight
		for range 200 {
			switch r.IntN(4) {
			case 0:
				up := all[r.IntN(len(all))]
				all = append(all, &model{Account: book.Open(up.Account, up.agent+"a", limit()), up: up})
			case 1, 2:
				m := all[r.IntN(len(all))]
				want := contract.Amount{NanoUSD: r.Int64N(200), Tokens: r.Int64N(300), Calls: 1}
				fits := true
				for at := m; at != nil; at = at.up {
					of := contract.Amount{NanoUSD: at.limit.NanoUSD, Tokens: at.limit.Tokens, Calls: at.limit.Calls}
					fits = fits && contract.Over(of, at.spent, at.reserved, want) == nil
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel() // no waiting
				res, err := m.Reserve(ended, Call{Wanted: want})
				if (err == nil) != fits {
					t.Fatalf("seed %d: fits %t, reserve says %v", seed, fits, err)
				}
				if err != nil {
					continue
				}
				flying = append(flying, flight{res, m})
				for at := m; at != nil; at = at.up {
					at.reserved = at.reserved.Add(want)
				}
			default:
				if len(flying) == 0 {
					continue
				}
				i := r.IntN(len(flying))
				f := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				used := contract.Amount{NanoUSD: r.Int64N(250), Tokens: r.Int64N(350), Calls: 1}
				f.Settle(used)
				f.Settle(contract.Amount{Tokens: 999}) // has no effect: the reservation is settled
				for at := f.of; at != nil; at = at.up {
					at.reserved, at.spent = at.reserved.Sub(f.amount), at.spent.Add(used)
				}
			}
			for _, m := range all {
				var by contract.Amount
				for _, s := range m.spenders() {
					by = by.Add(s.Amount)
				}
				if m.Account.spent != m.spent || m.Account.reserved != m.reserved || by != m.spent {
					t.Fatalf("seed %d: %s has %+v and %+v, want %+v and %+v; by agent %+v", seed, m.agent,
						m.Account.spent, m.Account.reserved, m.spent, m.reserved, by)
				}
			}
		}
		if book.inFlight != len(flying) {
			t.Fatalf("seed %d: %d in flight, want %d", seed, book.inFlight, len(flying))
		}
	}
}

// A refusal names the budget, the resource, the amounts, the spenders and the place of the limit.
func TestARefusalSaysWhoSpentIt(t *testing.T) {
	t.Parallel()
	book := NewBook()
	up := book.Open(nil, "primary", &dsl.Budget{NanoUSD: dsl.NanoUSD / 2})
	child := book.Open(up, "primary.subagents.x", nil)
	spend := func(a *Account, usd float64) {
		t.Helper()
		amount := contract.Amount{NanoUSD: dsl.Nano(usd), Calls: 1}
		r, err := a.Reserve(t.Context(), Call{Wanted: amount})
		if err != nil {
			t.Fatal(err)
		}
		r.Settle(amount)
	}
	spend(up, 0.125)
	spend(child, 0.25)
	_, err := child.Reserve(t.Context(), Call{Wanted: contract.Amount{NanoUSD: dsl.Nano(0.25), Calls: 1}})
	f := fault.From(err)
	want := "The budget of primary of 0.5 USD is used up: 0.375 USD spent, and this call needs up to 0.25 USD. " +
		"Spent by primary.subagents.x 0.25 USD, primary 0.125 USD. The limit is budget.usd of primary in the project file."
	if f.Code != fault.BudgetExceeded || f.Msg != want {
		t.Errorf("got %v", f)
	}
	details := map[string]any{
		"scope": "agent", "agent_path": "primary", "resource": "usd", "limit": 0.5, "spent": 0.375, "reserved": 0.0,
		"wanted": 0.25,
		"spenders": []any{
			map[string]any{"agent_path": "primary.subagents.x", "spent": 0.25},
			map[string]any{"agent_path": "primary", "spent": 0.125},
		},
	}
	if d := cmp.Diff(details, f.Details); d != "" {
		t.Error(d)
	}
}

// A call waits for calls in flight that have reserved too much. It is refused if the last of them has ended and the
// limit is still exceeded.
func TestACallWaitsForThoseInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewBook().Open(nil, "a", &dsl.Budget{Tokens: 100})
		first, second := reserve(t, a, 60), reserve(t, a, 30)
		done := make(chan error)
		go func() {
			_, err := a.Reserve(t.Context(), tokens(50))
			done <- err
		}()
		synctest.Wait()
		first.Settle(contract.Amount{Tokens: 40})
		synctest.Wait()
		second.Settle(contract.Amount{Tokens: 5})
		if err := <-done; err != nil {
			t.Errorf("45 are spent and 50 wanted of 100: %v", err)
		}
		if _, err := a.Reserve(t.Context(), tokens(56)); fault.CodeOf(err) != fault.BudgetExceeded {
			t.Errorf("45 are spent and 56 wanted of 100: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := a.Reserve(ctx, tokens(40))
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose run ends: %v", err)
		}
	})
}

// A call that a budget outside of the book refuses leaves no reservation.
func TestARefusalFromAbove(t *testing.T) {
	t.Parallel()
	a := NewBook().Open(nil, "a", &dsl.Budget{Tokens: 100})
	c := tokens(80)
	c.Above = func(context.Context) (bool, error) { return true, fault.New(fault.BudgetExceeded, "No.") }
	if _, err := a.Reserve(t.Context(), c); fault.CodeOf(err) != fault.BudgetExceeded {
		t.Errorf("got %v", err)
	}
	reserve(t, a, 100)
}

// A call that waits for a reservation is made when the budgets outside of the book refuse the reserved call.
func TestARefusalFromAboveMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewBook().Open(nil, "a", &dsl.Budget{Tokens: 100})
		asked, answer := make(chan struct{}), make(chan struct{})
		first := tokens(60)
		first.Above = func(context.Context) (bool, error) {
			close(asked)
			<-answer
			return false, fault.New(fault.BudgetExceeded, "No.")
		}
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := a.Reserve(t.Context(), first); fault.CodeOf(err) != fault.BudgetExceeded {
				t.Errorf("the first call: %v", err)
			}
		})
		<-asked
		all.Go(func() {
			if _, err := a.Reserve(t.Context(), tokens(60)); err != nil {
				t.Errorf("the second call: %v", err)
			}
		})
		synctest.Wait()
		close(answer)
		all.Wait()
	})
}

// In every tree, calls at the same time are all answered, with each answer of the budgets outside of the book. These
// are asked at most once more per call that ends.
func TestEachCallIsAnswered(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 17))
			book := NewBook()
			accounts := []*Account{book.Open(nil, "a", &dsl.Budget{Tokens: 50 + r.Int64N(200)})}
			for range r.IntN(4) {
				up := accounts[r.IntN(len(accounts))]
				accounts = append(accounts, book.Open(up, "b", &dsl.Budget{Tokens: 50 + r.Int64N(200)}))
			}
			calls := 2 + r.IntN(6)
			var mu sync.Mutex
			asked := 0
			var all sync.WaitGroup
			for range calls {
				at, wanted := accounts[r.IntN(len(accounts))], 1+r.Int64N(120)
				own := rand.New(rand.NewPCG(r.Uint64(), 1))
				all.Go(func() {
					c := tokens(wanted)
					c.Above = func(context.Context) (bool, error) {
						mu.Lock()
						asked++
						mu.Unlock()
						<-time.After(time.Duration(own.IntN(5)) * time.Millisecond)
						if own.IntN(2) == 0 {
							return own.IntN(2) == 0, fault.New(fault.BudgetExceeded, "No.")
						}
						return false, nil
					}
					held, err := at.Reserve(t.Context(), c)
					if err != nil {
						return
					}
					<-time.After(time.Duration(own.IntN(5)) * time.Millisecond)
					held.Settle(contract.Amount{Tokens: own.Int64N(wanted + 5), Calls: 1})
				})
			}
			all.Wait() // a deadlock fails the test
			if asked > calls*(calls+1) {
				t.Errorf("seed %d: %d calls asked above %d times", seed, calls, asked)
			}
			for _, a := range accounts {
				if book.inFlight != 0 || a.reserved != (contract.Amount{}) {
					t.Errorf("seed %d: %d calls are in flight, %+v is reserved", seed, book.inFlight, a.reserved)
				}
			}
		})
	}
}

// A model without a known price is refused under a budget in US dollars, unless the budget says otherwise.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	c := Call{Wanted: contract.Amount{Tokens: 5, Calls: 1}, Unpriced: "local:m"}
	for name, tt := range map[string]struct {
		limit dsl.Budget
		want  string
	}{
		"in US dollars": {dsl.Budget{NanoUSD: 1}, "the price of local:m is not known. A price in " +
			"[[providers.NAME.models]] of local.toml makes it known; unpriced: allow in the budget of a in the project file"},
		"in tokens":       {dsl.Budget{Tokens: 10}, ""},
		"counted as free": {dsl.Budget{NanoUSD: 1, AllowUnpriced: true}, ""},
	} {
		_, err := NewBook().Open(nil, "a", &tt.limit).Reserve(t.Context(), c)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An account has a limited number of working agents and of levels below it. The smallest limit of the account and
// those above applies.
func TestAdmit(t *testing.T) {
	t.Parallel()
	book := NewBook()
	run := book.Open(nil, "", &dsl.Budget{LiveAgents: 4})
	root := book.Open(run, "a", &dsl.Budget{Depth: 2})
	child := book.Open(root, "ab", &dsl.Budget{LiveAgents: 2})
	admit := func(a *Account, want string, waits bool) {
		t.Helper()
		refused, wait := a.Admit()
		switch {
		case want == "" && refused != nil, want != "" && refused == nil:
			t.Errorf("got %v, want %q", refused, want)
		case want != "" && (refused.Details["resource"] != want || wait != waits ||
			!strings.Contains(refused.Msg, " in the project file.") && !strings.Contains(refused.Msg, "in local.toml.")):
			t.Errorf("got %v, wait %t; want %q", refused, wait, want)
		}
	}
	admit(root, "", false)
	admit(child, "", false)
	admit(child, "live_agents", true) // two of the child's own
	deep := book.Open(book.Open(root, "ac", nil), "acd", nil)
	admit(deep, "depth", false)
	admit(root, "", false)
	admit(root, "live_agents", true) // four of the run
	child.Depart()
	admit(root, "", false)
}

// A time limit expires once, and its clock stops while an operator is asked below the account.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := NewBook()
		up := book.Open(nil, "a", &dsl.Budget{Walltime: 10 * time.Second})
		child := book.Open(up, "ab", nil)
		var mu sync.Mutex
		var over []*fault.Error
		stop := up.Start(func(f *fault.Error) {
			mu.Lock()
			defer mu.Unlock()
			over = append(over, f)
		})
		defer stop()
		expired := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(over)
		}
		<-time.After(6 * time.Second)
		one, two := child.Wait(), child.Wait()
		<-time.After(time.Hour)
		one()
		<-time.After(time.Hour)
		two()
		<-time.After(3 * time.Second)
		if n := expired(); n != 0 {
			t.Fatalf("after 9 s of work: %v", over)
		}
		<-time.After(2 * time.Second)
		if n := expired(); n != 1 || over[0].Details["limit"] != int64(10000) {
			t.Fatalf("after 11 s of work: %v", over)
		}
		child.Wait()()
		<-time.After(time.Hour)
		if n := expired(); n != 1 {
			t.Errorf("it expired %d times", n)
		}
		stopped := book.Open(nil, "b", &dsl.Budget{Walltime: time.Second})
		stopped.Start(func(*fault.Error) { t.Error("it was stopped") })()
		<-time.After(time.Hour)
	})
}

// The state of a budget is shown at most once a second, and at once on request.
func TestStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := NewBook()
		up := book.Open(nil, "a", &dsl.Budget{Tokens: 100})
		child := book.Open(up, "ab", &dsl.Budget{LiveAgents: 2})
		reserve(t, child, 7).Settle(contract.Amount{Tokens: 5, Calls: 1})
		reserve(t, child, 9)
		want := []contract.BudgetState{{
			Scope: contract.AgentBudget, Agent: "a", Limit: contract.Amount{Tokens: 100},
			Spent: contract.Amount{Tokens: 5, Calls: 1}, Reserved: contract.Amount{Tokens: 9, Calls: 1},
		}}
		if d := cmp.Diff(want, child.States(false)); d != "" {
			t.Error(d)
		}
		if got := child.States(false); got != nil {
			t.Errorf("at once again: %+v", got)
		}
		if got := child.States(true); len(got) != 1 {
			t.Errorf("asked for: %+v", got)
		}
		<-time.After(showEvery)
		if got := child.States(false); len(got) != 1 {
			t.Errorf("after a second: %+v", got)
		}
	})
}

// BenchmarkCheck measures a reservation and its settlement in a tree of 16 levels with a budget each.
func BenchmarkCheck(b *testing.B) {
	book := NewBook()
	var a *Account
	for range dsl.MaxDepth {
		a = book.Open(a, "a", &dsl.Budget{
			NanoUSD: dsl.MaxBudgetUSD * dsl.NanoUSD, Tokens: dsl.MaxBudgetTokens, Calls: dsl.MaxBudgetCalls,
		})
	}
	c := tokens(1)
	for b.Loop() {
		r, err := a.Reserve(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		r.Settle(contract.Amount{Calls: 1})
	}
}

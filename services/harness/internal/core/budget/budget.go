// Package budget counts the use of models by the agents of a run and holds it to their budgets.
//
// Each invocation has an [Account] below its caller's. A model call reserves its greatest possible use in its own
// account and in each above it; without a reservation it is not made. After the call its use replaces the
// reservation. So a call is admitted only if spent and reserved stay within each limit together, and a budget is
// overdrawn only by the use of calls in flight beyond their reservations.
package budget

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Book holds the accounts of a run. It and its accounts are safe for concurrent use.
type Book struct {
	mu sync.Mutex // guards the fields below and those of all accounts
	// inFlight is the number of reservations, including those that [Call.Above] has not answered.
	inFlight int
	// given is closed when a reservation ends, and then replaced. settled is the same for a settled reservation, and
	// for the last one in flight.
	given, settled chan struct{}
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{given: make(chan struct{}), settled: make(chan struct{})} }

// Account counts the use of one invocation and of those below it.
type Account struct {
	book  *Book
	up    *Account
	agent string // empty for the whole run
	limit dsl.Budget

	live            int // working invocations, the account's own included
	spent, reserved contract.Amount
	by              map[string]contract.Amount
	shown           time.Time
	clock           clock
}

// Open returns the account of an invocation of an agent, below up unless up is nil. A nil limit sets no limit.
func (b *Book) Open(up *Account, agent string, limit *dsl.Budget) *Account {
	a := &Account{book: b, up: up, agent: agent, live: 1, by: map[string]contract.Amount{}}
	if limit != nil {
		a.limit = *limit
	}
	return a
}

// chain yields the account and those above it.
func (a *Account) chain(yield func(*Account) bool) {
	for ; a != nil; a = a.up {
		if !yield(a) {
			return
		}
	}
}

// Admit counts an invocation that a's agent is about to begin. It fails with budget_exceeded if a limit of live
// agents or of depth does not allow one. wait is true if there may be room after the end of another invocation.
func (a *Account) Admit() (refused *fault.Error, wait bool) {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	depth := 0
	for at := range a.chain {
		depth++
		if most := at.limit.Depth; most > 0 && depth > most {
			return fault.New(fault.BudgetExceeded,
				"The budget of %s allows agents %d levels below it, and this one would be deeper. %s", at.agent, most,
				contract.PlaceOf(contract.AgentBudget, at.agent, "depth")).
				With("scope", string(contract.AgentBudget)).With("agent_path", at.agent).
				With("resource", "depth").With("limit", most), false
		}
		if most := at.limit.LiveAgents; most > 0 && at.live >= most {
			return at.crowded(most), true
		}
	}
	for at := range a.chain {
		at.live++
	}
	return nil, false
}

func (a *Account) crowded(most int) *fault.Error {
	if a.agent == "" {
		return fault.New(fault.BudgetExceeded, "%d agents of this run are working, which is the limit. "+
			"Continue without another one. The limit is live_agents of [limits] in local.toml.", most).
			With("scope", string(contract.SessionBudget)).With("resource", "live_agents").With("limit", most)
	}
	return fault.New(fault.BudgetExceeded,
		"The budget of %s allows %d working agents, and they are working. Continue without another one. %s", a.agent, most,
		contract.PlaceOf(contract.AgentBudget, a.agent, "live_agents")).
		With("scope", string(contract.AgentBudget)).With("agent_path", a.agent).
		With("resource", "live_agents").With("limit", most)
}

// Depart ends the count of [Account.Admit].
func (a *Account) Depart() {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for at := range a.chain {
		at.live--
	}
}

// Bounds reports whether a budget in US dollars or tokens applies to the account.
func (a *Account) Bounds() bool {
	for at := range a.chain {
		if at.limit.NanoUSD > 0 || at.limit.Tokens > 0 {
			return true
		}
	}
	return false
}

// Call is a model call that is about to be made.
type Call struct {
	// Wanted is the call's greatest possible use.
	Wanted contract.Amount
	// Unpriced is the call's model if it has no known price, and empty otherwise.
	Unpriced string
	// Above, unless nil, reserves Wanted in the budgets outside of the book. It fails with budget_exceeded; wait is
	// then true if the answer may differ after a call in flight is settled.
	Above func(context.Context) (wait bool, err error)
}

// Reservation is the greatest possible use of a call in flight.
type Reservation struct {
	account *Account
	amount  contract.Amount
	over    bool
}

// Reserve reserves the greatest possible use of a call. It waits while calls in flight have reserved too much. It
// fails with budget_exceeded, and when ctx ends.
func (a *Account) Reserve(ctx context.Context, c Call) (*Reservation, error) {
	for {
		others, err := a.try(ctx, c)
		if others == nil {
			if err != nil {
				return nil, err
			}
			return &Reservation{account: a, amount: c.Wanted}, nil
		}
		select {
		case <-others:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try reserves unless a budget refuses. If waiting may help, it returns a channel that is closed when the next try may
// succeed. A call that the book refuses waits for the end of a reservation. A call that is refused above waits for a
// settled one: calls that the budgets above refuse in turn would otherwise wake each other without end.
func (a *Account) try(ctx context.Context, c Call) (others <-chan struct{}, err error) {
	a.book.mu.Lock()
	refused, wait := a.refuse(c)
	if refused == nil {
		a.hold(c.Wanted)
	}
	given, settled, inFlight := a.book.given, a.book.settled, a.book.inFlight
	a.book.mu.Unlock()
	if refused == nil && c.Above == nil {
		return nil, nil
	}
	others = given
	if refused == nil {
		others = settled
		inFlight--
		if wait, err = c.Above(ctx); err == nil {
			return nil, nil
		}
		(&Reservation{account: a, amount: c.Wanted}).give(contract.Amount{}, false)
	} else {
		err = refused
	}
	if wait && inFlight > 0 && ctx.Err() == nil {
		return others, nil
	}
	return nil, err
}

// refuse returns the reason to refuse a call, nil for none. The caller holds mu.
func (a *Account) refuse(c Call) (refused *fault.Error, wait bool) {
	for at := range a.chain {
		if at.limit.NanoUSD > 0 && c.Unpriced != "" && !at.limit.AllowUnpriced {
			return contract.Unpriced(contract.AgentBudget, at.agent, c.Unpriced), false
		}
		limit := contract.Amount{NanoUSD: at.limit.NanoUSD, Tokens: at.limit.Tokens, Calls: at.limit.Calls}
		if over := contract.Over(limit, at.spent, at.reserved, c.Wanted); over != nil {
			over.Scope, over.Agent, over.Spenders = contract.AgentBudget, at.agent, at.spenders()
			return over.Fault(), over.Waits()
		}
	}
	return nil, false
}

func (a *Account) spenders() []contract.Spender {
	var list []contract.Spender
	for agent, amount := range a.by {
		list = append(list, contract.Spender{Agent: agent, Amount: amount})
	}
	return list
}

// Charge adds the use of an agent from before the run was handed over.
func (a *Account) Charge(agent string, used contract.Amount) {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for at := range a.chain {
		at.spent = at.spent.Add(used)
		at.by[agent] = at.by[agent].Add(used)
	}
}

// hold reserves an amount. The caller holds mu.
func (a *Account) hold(amount contract.Amount) {
	for at := range a.chain {
		at.reserved = at.reserved.Add(amount)
	}
	a.book.inFlight++
}

// Amount returns the reserved amount.
func (r *Reservation) Amount() contract.Amount { return r.amount }

// Settle replaces the reservation by the use of its call. Only the first settlement of a reservation counts.
func (r *Reservation) Settle(used contract.Amount) { r.give(used, true) }

// give ends the reservation and adds the use. settled says that its call was allowed.
func (r *Reservation) give(used contract.Amount, settled bool) {
	b := r.account.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	for at := range r.account.chain {
		at.reserved = at.reserved.Sub(r.amount)
		at.spent = at.spent.Add(used)
		at.by[r.account.agent] = at.by[r.account.agent].Add(used)
	}
	b.inFlight--
	close(b.given)
	b.given = make(chan struct{})
	if settled || b.inFlight == 0 {
		close(b.settled)
		b.settled = make(chan struct{})
	}
}

// showEvery is the shortest time between two shown states of a budget.
const showEvery = time.Second

// States returns the states of the account's budgets that were not shown within showEvery; with all, every state.
func (a *Account) States(all bool) []contract.BudgetState {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	var list []contract.BudgetState
	now := time.Now()
	for at := range a.chain {
		limit := contract.Amount{NanoUSD: at.limit.NanoUSD, Tokens: at.limit.Tokens, Calls: at.limit.Calls}
		if limit == (contract.Amount{}) || !all && now.Sub(at.shown) < showEvery {
			continue
		}
		at.shown = now
		list = append(list, contract.BudgetState{
			Scope: contract.AgentBudget, Agent: at.agent, Limit: limit, Spent: at.spent, Reserved: at.reserved,
		})
	}
	return list
}

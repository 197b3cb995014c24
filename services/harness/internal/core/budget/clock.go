package budget

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// clock is the time of work of an invocation. It stands while the invocation, or one below it, waits for an operator.
type clock struct {
	timer  *time.Timer // nil unless it runs
	since  time.Time
	worked time.Duration
	waits  int
	expire func(*fault.Error) // nil unless the account has a limit and is open
}

// Start begins the account's time of work. expire is called, at most once, when it is used up. The returned function
// ends it.
func (a *Account) Start(expire func(*fault.Error)) (stop func()) {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	if a.limit.Walltime <= 0 {
		return func() {}
	}
	a.clock.expire = expire
	a.run()
	return func() {
		a.book.mu.Lock()
		defer a.book.mu.Unlock()
		a.stand()
		a.clock.expire = nil
	}
}

// Worked counts time of work before the run was handed over. It comes before [Account.Start].
func (a *Account) Worked(d time.Duration) {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	a.clock.worked += d
}

// Wait stops the clocks of the account and of those above it until the returned function is called: an operator is
// asked.
func (a *Account) Wait() (resume func()) {
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for at := range a.chain {
		at.clock.waits++
		at.stand()
	}
	return func() {
		a.book.mu.Lock()
		defer a.book.mu.Unlock()
		for at := range a.chain {
			at.clock.waits--
			at.run()
		}
	}
}

// run lets the clock run unless something keeps it. The caller holds mu.
func (a *Account) run() {
	c := &a.clock
	if c.expire == nil || c.waits > 0 || c.timer != nil {
		return
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(a.limit.Walltime-c.worked, a.expired)
}

// stand stops the clock. The caller holds mu.
func (a *Account) stand() {
	c := &a.clock
	if c.timer == nil {
		return
	}
	c.timer.Stop()
	c.timer = nil
	c.worked += time.Since(c.since)
}

// expired ends the invocation at the end of its time. A clock that was stopped at that moment has more time.
func (a *Account) expired() {
	a.book.mu.Lock()
	c := &a.clock
	expire := c.expire
	if c.timer == nil || expire == nil {
		a.book.mu.Unlock()
		return
	}
	a.stand()
	c.expire = nil
	limit := a.limit.Walltime.Milliseconds()
	a.book.mu.Unlock()
	expire(contract.Overdraft{
		Scope: contract.AgentBudget, Agent: a.agent, Resource: contract.BudgetWalltime, Limit: limit, Spent: limit,
	}.Fault())
}

package budget

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// clock measures the work time of an invocation. It stops while the invocation, or one below it, waits for an
// operator.
type clock struct {
	timer  *time.Timer // nil while the clock stands
	since  time.Time
	worked time.Duration
	waits  int
	expire func(*fault.Error) // nil unless the account has a time limit and is open
}

// Start starts the account's clock. expire is called, at most once, when the time limit is reached. The returned
// function stops the clock.
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

// Worked adds work time from before the run was handed over. It must be called before [Account.Start].
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

// run starts the clock unless it runs, waits or has no limit. The caller holds mu.
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

// expired ends the invocation at its time limit. A clock that was stopped at the same moment is left alone.
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

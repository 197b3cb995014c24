package record

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Spend is a model call that is about to be made, with its greatest possible use.
type Spend struct {
	RunID string
	// InvocationID is "" for the root agent. Call counts from 1 in the invocation.
	InvocationID     string
	Call             int
	SessionID, Owner string
	AgentPath, Model string
	Reserved         contract.Amount
	At               int64
}

// Settlement is the use of a model call that is over.
type Settlement struct {
	RunID, InvocationID string
	Call                int
	Used                contract.Amount
	// Estimated says that the use is not known: Used is the reservation.
	Estimated bool
}

// Claim is a model call that the budgets of its session and its operator have to allow.
type Claim struct {
	Spend
	// Unpriced says that the price of the model is not known.
	Unpriced bool
	// Operator is the budget of the operator for the period that began at Since.
	Operator contract.Budget
	Since    int64
	// Worked is the time that the run has worked so far.
	Worked time.Duration
}

// Use is the use of models from one budget.
type Use struct {
	Reserved contract.Amount
	ByAgent  []contract.Spender
	// Worked is the time of work, of a session.
	Worked time.Duration
}

// Spent returns the sum over all agents.
func (u Use) Spent() contract.Amount {
	var sum contract.Amount
	for _, s := range u.ByAgent {
		sum = sum.Add(s.Amount)
	}
	return sum
}

// Verdict is the answer to a claim.
type Verdict struct {
	// Refused says why the call may not be made, nil if it may. Waits says that it may be allowed once a call in flight is
	// settled.
	Refused *fault.Error
	Waits   bool
	// Walltime is the session's limit in time of work, or 0, and Left the rest for its run, from its beginning.
	Walltime, Left time.Duration
	// States are the budgets as they are with the call, if it may be made.
	States []contract.BudgetState
}

// RunWorked is how long a run has worked.
type RunWorked struct {
	RunID string
	Time  time.Duration
}

// Overtime is the refusal of more work than a session's budget allows.
func Overtime(limit, worked time.Duration) *fault.Error {
	return contract.Overdraft{
		Scope: contract.SessionBudget, Resource: contract.BudgetWalltime, Limit: limit.Milliseconds(),
		Spent: worked.Milliseconds(),
	}.Fault()
}

// Judge decides on a claim under one budget.
func (c Claim) Judge(scope contract.BudgetScope, b contract.Budget, u Use, v *Verdict) {
	if v.Refused != nil || !b.Set() {
		return
	}
	state := contract.BudgetState{
		Scope: scope, Limit: b.Limit, Spent: u.Spent(), Reserved: u.Reserved, Walltime: b.Walltime,
	}
	if b.Walltime > 0 {
		v.Walltime, v.Left, state.Worked = b.Walltime, b.Walltime-u.Worked, u.Worked+c.Worked
	}
	if b.Walltime > 0 && state.Worked >= b.Walltime {
		v.Refused = Overtime(b.Walltime, state.Worked)
	} else if b.Limit.NanoUSD > 0 && c.Unpriced && !b.AllowUnpriced {
		v.Refused = contract.Unpriced(scope, "", c.Model)
	} else if over := contract.Over(b.Limit, state.Spent, u.Reserved, c.Reserved); over != nil {
		over.Scope, over.Spenders = scope, u.ByAgent
		v.Refused, v.Waits = over.Fault(), over.Waits()
	} else {
		state.Reserved = state.Reserved.Add(c.Reserved)
	}
	v.States = append(v.States, state)
}

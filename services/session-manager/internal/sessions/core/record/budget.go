package record

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Spend is the reservation of a model call that is about to be made: its greatest possible use.
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

// Settlement is the use of a finished model call.
type Settlement struct {
	RunID, InvocationID string
	Call                int
	Used                contract.Amount
	// Estimated says that the use is unknown and Used is the reservation.
	Estimated bool
}

// Claim is a model call that the budgets of its session and its operator must allow.
type Claim struct {
	Spend
	// Unpriced says that the model's price is unknown.
	Unpriced bool
	// Operator is the operator's budget for the period that began at Since.
	Operator contract.Budget
	Since    int64
	// Worked is the working time of the run so far.
	Worked time.Duration
}

// Use is the use of one budget.
type Use struct {
	Reserved contract.Amount
	ByAgent  []contract.Spender
	// Worked is the working time of a session's other runs; 0 for an operator.
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

// Verdict is the result of a claim.
type Verdict struct {
	// Refused is the reason against the call, nil if it is allowed. Waits says that a retry may be allowed once a call
	// in flight is settled.
	Refused *fault.Error
	Waits   bool
	// Walltime is the session's limit of working time, or 0. Left is the working time that remained when its run
	// began.
	Walltime, Left time.Duration
	// States are the budgets, including the call if it is allowed.
	States []contract.BudgetState
}

// RunWorked is the working time of a run.
type RunWorked struct {
	RunID string
	Time  time.Duration
}

// Overtime is the error if a session's budget of working time is used up.
func Overtime(limit, worked time.Duration) *fault.Error {
	return contract.Overdraft{
		Scope: contract.SessionBudget, Resource: contract.BudgetWalltime, Limit: limit.Milliseconds(),
		Spent: worked.Milliseconds(),
	}.Fault()
}

// Judge checks a claim against one budget and adds the result to v.
func (c Claim) Judge(scope contract.BudgetScope, b contract.Budget, u Use, v *Verdict) {
	if v.Refused != nil || !b.Set() {
		return
	}
	state := contract.BudgetState{
		Scope: scope, Limit: b.Limit, Spent: u.Spent(), Reserved: u.Reserved, Walltime: b.Walltime,
		AllowUnpriced: b.AllowUnpriced,
	}
	if b.Walltime > 0 {
		v.Walltime, v.Left, state.Worked = b.Walltime, b.Walltime-u.Worked, u.Worked+c.Worked
	}
	if b.Walltime > 0 && state.Worked >= b.Walltime {
		v.Refused = Overtime(b.Walltime, state.Worked)
	} else if b.Limit.NanoUSD > 0 && c.Unpriced && !b.AllowUnpriced {
		v.Refused = contract.Unpriced(scope, "", c.Model)
	} else if over := contract.Over(b.Limit, state.Spent, u.Reserved, c.Reserved); over != nil {
		over.Scope, over.Per, over.Spenders = scope, b.Per, u.ByAgent
		v.Refused, v.Waits = over.Fault(), over.Waits()
	} else {
		state.Reserved = state.Reserved.Add(c.Reserved)
	}
	v.States = append(v.States, state)
}

package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
)

// NanoUSD is how many of the units in which money is counted are a US dollar.
const NanoUSD = dsl.NanoUSD

// PolicyModified is the record of a request that a rule of the agent's policy changed.
const PolicyModified = "agent.policy_modified"

// BudgetRefused is the record of a call that a budget did not allow.
const BudgetRefused = "budget.refused"

// Amount is a use of models: billionths of a US dollar, tokens (input, cached or not, with output) and requests. As a
// limit, 0 bounds no use.
type Amount struct{ NanoUSD, Tokens, Calls int64 }

// Add returns the sum.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.NanoUSD + b.NanoUSD, a.Tokens + b.Tokens, a.Calls + b.Calls}
}

// Sub returns the difference.
func (a Amount) Sub(b Amount) Amount {
	return Amount{a.NanoUSD - b.NanoUSD, a.Tokens - b.Tokens, a.Calls - b.Calls}
}

// USD returns the money in US dollars.
func (a Amount) USD() float64 { return float64(a.NanoUSD) / NanoUSD }

// BudgetScope is the kind of owner of a budget.
type BudgetScope string

// The scopes.
const (
	AgentBudget    BudgetScope = "agent"
	SessionBudget  BudgetScope = "session"
	OperatorBudget BudgetScope = "operator"
)

// Resource is a thing that a budget bounds.
type Resource string

// The resources. Money is counted in billionths of a US dollar, time in milliseconds.
const (
	BudgetUSD      Resource = "usd"
	BudgetTokens   Resource = "tokens"
	BudgetCalls    Resource = "calls"
	BudgetWalltime Resource = "walltime"
)

// Spender is an agent with its use.
type Spender struct {
	Agent string
	Amount
}

// maxSpenders bounds how many agents a refusal names.
const maxSpenders = 5

// Overdraft is a call that a budget does not allow.
type Overdraft struct {
	Scope BudgetScope
	// Agent is the tree path of the owner, empty for other scopes.
	Agent    string
	Resource Resource
	// Limit, Spent, Reserved and Wanted count the resource.
	Limit, Spent, Reserved, Wanted int64
	// Spenders are the agents that spent from the budget.
	Spenders []Spender
}

// Over returns the first resource of which spent, reserved and wanted are together more than a limit, nil if each limit
// holds.
func Over(limit, spent, reserved, wanted Amount) *Overdraft {
	for _, r := range []Overdraft{
		{Resource: BudgetUSD, Limit: limit.NanoUSD, Spent: spent.NanoUSD, Reserved: reserved.NanoUSD, Wanted: wanted.NanoUSD},
		{Resource: BudgetTokens, Limit: limit.Tokens, Spent: spent.Tokens, Reserved: reserved.Tokens, Wanted: wanted.Tokens},
		{Resource: BudgetCalls, Limit: limit.Calls, Spent: spent.Calls, Reserved: reserved.Calls, Wanted: wanted.Calls},
	} {
		if r.Limit > 0 && r.Spent+r.Reserved+r.Wanted > r.Limit {
			return &r
		}
	}
	return nil
}

// Waits reports whether the call may be allowed once the calls in flight are settled.
func (o Overdraft) Waits() bool { return o.Reserved > 0 && o.Spent+o.Wanted <= o.Limit }

// Fault returns the refusal: budget_exceeded with the budget, the amounts and the spenders.
func (o Overdraft) Fault() *fault.Error {
	spenders := slices.Clone(o.Spenders)
	slices.SortStableFunc(spenders, func(a, b Spender) int {
		return cmp.Or(cmp.Compare(o.Resource.of(b.Amount), o.Resource.of(a.Amount)), strings.Compare(a.Agent, b.Agent))
	})
	spenders = slices.DeleteFunc(spenders, func(s Spender) bool { return o.Resource.of(s.Amount) == 0 })
	spenders = spenders[:min(len(spenders), maxSpenders)]
	text := fmt.Sprintf("%s of %s is used up: %s spent", o.owner(), o.Resource.text(o.Limit), o.Resource.text(o.Spent))
	if o.Reserved > 0 {
		text += ", " + o.Resource.text(o.Reserved) + " reserved by calls in flight"
	}
	if o.Wanted > 0 {
		text += ", and this call needs up to " + o.Resource.text(o.Wanted)
	}
	var who []string
	list := make([]any, len(spenders))
	for i, s := range spenders {
		n := o.Resource.of(s.Amount)
		who = append(who, s.Agent+" "+o.Resource.text(n))
		list[i] = map[string]any{"agent_path": s.Agent, "spent": o.Resource.value(n)}
	}
	if len(who) > 0 {
		text += ". Spent by " + strings.Join(who, ", ")
	}
	f := fault.New(fault.BudgetExceeded, "%s.", text).With("scope", string(o.Scope)).With("resource", string(o.Resource)).
		With("limit", o.Resource.value(o.Limit)).With("spent", o.Resource.value(o.Spent)).
		With("reserved", o.Resource.value(o.Reserved)).With("wanted", o.Resource.value(o.Wanted)).With("spenders", list)
	if o.Agent != "" {
		f = f.With("agent_path", o.Agent)
	}
	return f
}

func (o Overdraft) owner() string {
	switch o.Scope {
	case SessionBudget:
		return "The session's budget"
	case OperatorBudget:
		return "The operator's budget"
	}
	return "The budget of " + o.Agent
}

// Unpriced is the refusal of a model without a known price under a budget in US dollars.
func Unpriced(scope BudgetScope, agent, model string) *fault.Error {
	o := Overdraft{Scope: scope, Agent: agent}
	f := fault.New(fault.BudgetExceeded,
		"%s is in US dollars, and the price of %s is not known; give the budget unpriced: allow to count it as free.",
		o.owner(), model).With("scope", string(scope)).With("resource", string(BudgetUSD)).With("model", model)
	if agent != "" {
		f = f.With("agent_path", agent)
	}
	return f
}

// of returns the part of an amount that the resource counts.
func (r Resource) of(a Amount) int64 {
	switch r {
	case BudgetUSD:
		return a.NanoUSD
	case BudgetTokens:
		return a.Tokens
	case BudgetCalls:
		return a.Calls
	}
	return 0
}

// value returns a number of the resource as clients are shown it: US dollars, or a count.
func (r Resource) value(n int64) any {
	if r == BudgetUSD {
		return Amount{NanoUSD: n}.USD()
	}
	return n
}

func (r Resource) text(n int64) string {
	switch r {
	case BudgetUSD:
		return strconv.FormatFloat(Amount{NanoUSD: n}.USD(), 'f', -1, 64) + " USD"
	case BudgetWalltime:
		return (time.Duration(n) * time.Millisecond).String()
	case BudgetCalls:
		return strconv.FormatInt(n, 10) + " calls"
	}
	return strconv.FormatInt(n, 10) + " tokens"
}

// BudgetState says how much of a budget is left.
type BudgetState struct {
	Scope BudgetScope
	// Agent is the tree path of the owner, empty for other scopes.
	Agent string
	// Limit has 0 for unbounded resources.
	Limit, Spent, Reserved Amount
	// Walltime is the limit of a session in time of work, 0 for none, and Worked what of it is over.
	Walltime, Worked time.Duration
}

// Records implements [Told].
func (BudgetState) Records() []Record { return nil }

// FrameType implements [Told].
func (BudgetState) FrameType() frametype.Type { return frametype.BudgetState }

func (BudgetState) event() {}

// CallWanted is a model call that is about to be made, with the most that it may use. It is answered by [CallGranted]
// once it is stored with its record, and its request leaves after that.
type CallWanted struct {
	// Call counts from 1 in the invocation.
	Call   int
	Agent  string
	Model  string
	Amount Amount
	// Unpriced says that the price of the model is not known.
	Unpriced bool
	// Audit is the record of the request, empty where a call is wanted again.
	Audit []Record
}

// CallSettled is a model call that is over, with its use.
type CallSettled struct {
	Call   int
	Amount Amount
	// Estimated says that the use is not known: Amount is an estimate, or the reservation where there is none.
	Estimated bool
	// OfTurn says that the turn of the call follows at once.
	OfTurn bool
}

// CallGranted answers a [CallWanted].
type CallGranted struct {
	Call int
	// Err says why the call may not be made, nil if it may. Waits says that it may be granted once a call in flight is
	// settled.
	Err   *fault.Error
	Waits bool
}

func (CallWanted) event()  {}
func (CallSettled) event() {}

// Budget bounds the use of models by a session, or by an operator in a period. The zero Budget bounds no use.
type Budget struct {
	// Limit has 0 for unbounded resources.
	Limit Amount
	// Walltime bounds the time of work of a session, 0 for no bound. While an operator is asked none passes.
	Walltime time.Duration
	// AllowUnpriced says that models without a known price may be asked under a limit in US dollars, as free ones.
	AllowUnpriced bool
}

// Set reports whether the budget bounds a use.
func (b Budget) Set() bool { return b.Limit != Amount{} || b.Walltime > 0 }

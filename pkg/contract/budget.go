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

// NanoUSD is the number of money units in a US dollar.
const NanoUSD = dsl.NanoUSD

// PolicyModified is the record of a request changed by a rule of the agent's policy.
const PolicyModified = "agent.policy_modified"

// BudgetRefused is the record of a call refused by a budget.
const BudgetRefused = "budget.refused"

// Amount is a use of models: billionths of a US dollar, tokens (input, cached or not, and output) and requests. In a
// limit, 0 means no limit.
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

// Resource is a kind of use that a budget limits.
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

// maxSpenders is the maximum number of agents named in a refusal.
const maxSpenders = 5

// Overdraft is a call that exceeds a budget.
type Overdraft struct {
	Scope BudgetScope
	// Agent is the tree path of the owner, empty for other scopes.
	Agent string
	// Per is the period of an operator's budget: day, week or month; empty for other scopes.
	Per      string
	Resource Resource
	// Limit, Spent, Reserved and Wanted are amounts of the resource.
	Limit, Spent, Reserved, Wanted int64
	// Spenders are the agents that spent from the budget.
	Spenders []Spender
}

// Over returns the first resource whose limit is below the sum of spent, reserved and wanted, nil if each limit holds.
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

// Waits reports whether the call may fit once the calls in flight are settled.
func (o Overdraft) Waits() bool { return o.Reserved > 0 && o.Spent+o.Wanted <= o.Limit }

// Fault returns the refusal: budget_exceeded with the budget, the amounts, the spenders and the place of the limit.
func (o Overdraft) Fault() *fault.Error {
	spenders := slices.Clone(o.Spenders)
	slices.SortStableFunc(spenders, func(a, b Spender) int {
		return cmp.Or(cmp.Compare(o.Resource.of(b.Amount), o.Resource.of(a.Amount)), strings.Compare(a.Agent, b.Agent))
	})
	spenders = slices.DeleteFunc(spenders, func(s Spender) bool { return o.Resource.of(s.Amount) == 0 })
	spenders = spenders[:min(len(spenders), maxSpenders)]
	limit := o.Resource.text(o.Limit)
	if o.Per != "" {
		limit += " per " + o.Per
	}
	text := fmt.Sprintf("%s of %s is used up: %s spent", o.owner(), limit, o.Resource.text(o.Spent))
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
	f := fault.New(fault.BudgetExceeded, "%s. %s", text, PlaceOf(o.Scope, o.Agent, string(o.Resource))).
		With("scope", string(o.Scope)).With("resource", string(o.Resource)).
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

// PlaceOf returns a sentence that names the setting of a limit.
func PlaceOf(scope BudgetScope, agent, resource string) string {
	switch scope {
	case SessionBudget:
		return fmt.Sprintf("The limit is the session's: `kaged run --session ID --budget-%s` sets another.", resource)
	case OperatorBudget:
		return fmt.Sprintf("The limit is %s of [budget] in local.toml, or of the budget that an administrator set.", resource)
	}
	return fmt.Sprintf("The limit is budget.%s of %s in the project file.", resource, agent)
}

// Unpriced is the refusal of a model without a known price under a budget in US dollars.
func Unpriced(scope BudgetScope, agent, model string) *fault.Error {
	o := Overdraft{Scope: scope, Agent: agent}
	place := fmt.Sprintf("unpriced: allow in the budget of %s in the project file", agent)
	switch scope {
	case SessionBudget:
		place = "unpriced: allow in the session's budget (PUT /api/v1/sessions/ID)"
	case OperatorBudget:
		place = `unpriced = "allow" of [budget] in local.toml`
	}
	f := fault.New(fault.BudgetExceeded, "%s is in US dollars, and the price of %s is not known. A price in "+
		"[[providers.NAME.models]] of local.toml makes it known; %s counts the model as free.", o.owner(), model, place).
		With("scope", string(scope)).With("resource", string(BudgetUSD)).With("model", model)
	if agent != "" {
		f = f.With("agent_path", agent)
	}
	return f
}

// of returns the part of an amount that belongs to the resource.
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

// value converts an amount of the resource for clients: US dollars, or a count.
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
		return count(n, "call")
	}
	return count(n, "token")
}

// count returns a number of things.
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.FormatInt(n, 10) + " " + thing
}

// BudgetState is the state of a budget: its limit, the use, and the reservations.
type BudgetState struct {
	Scope BudgetScope
	// Agent is the tree path of the owner, empty for other scopes.
	Agent string
	// In Limit, 0 means no limit.
	Limit, Spent, Reserved Amount
	// Walltime is the limit of a session's working time, 0 for none; Worked is the time worked so far.
	Walltime, Worked time.Duration
	// AllowUnpriced is [Budget.AllowUnpriced] of a session or operator.
	AllowUnpriced bool
}

// Records implements [Told].
func (BudgetState) Records() []Record { return nil }

// FrameType implements [Told].
func (BudgetState) FrameType() frametype.Type { return frametype.BudgetState }

func (BudgetState) event() {}

// CallWanted announces a model call with its maximum use. [CallGranted] answers it once it is stored with its record;
// the request is sent after that.
type CallWanted struct {
	// Call is the number of the call in the invocation, from 1.
	Call   int
	Agent  string
	Model  string
	Amount Amount
	// Unpriced is true if the price of the model is unknown.
	Unpriced bool
	// Audit is the record of the request, empty if the call was announced before.
	Audit []Record
}

// CallSettled is the end of a model call, with its use.
type CallSettled struct {
	Call   int
	Amount Amount
	// Estimated is true if the use is unknown: Amount is then an estimate, or the reservation without an estimate.
	Estimated bool
	// OfTurn is true if the turn of the call follows at once.
	OfTurn bool
}

// CallGranted answers a [CallWanted].
type CallGranted struct {
	Call int
	// Err is the reason for a refusal, nil for a grant. Waits is true if the call may be granted once a call in flight is
	// settled.
	Err   *fault.Error
	Waits bool
}

func (CallWanted) event()  {}
func (CallSettled) event() {}

// Budget limits the use of models by a session, or by an operator in a period. The zero Budget has no limits.
type Budget struct {
	// In Limit, 0 means no limit.
	Limit Amount
	// Walltime limits the working time of a session, 0 for no limit. The time of waiting for an operator does not count.
	Walltime time.Duration
	// AllowUnpriced permits models without a known price under a limit in US dollars; they count as free.
	AllowUnpriced bool
	// Per is the period of an operator's budget: day, week or month; empty for a session's.
	Per string
}

// Set reports whether the budget has a limit.
func (b Budget) Set() bool { return b.Limit != Amount{} || b.Walltime > 0 }

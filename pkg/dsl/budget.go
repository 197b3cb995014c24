package dsl

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Maximum values of budgets.
const (
	// MaxBudgetUSD is the largest budget in US dollars.
	MaxBudgetUSD = 1_000_000
	// MaxBudgetTokens is the largest budget in tokens.
	MaxBudgetTokens = 1_000_000_000_000
	// MaxBudgetCalls is the largest budget in requests.
	MaxBudgetCalls = 1_000_000_000
	// MaxBudgetWalltime is the longest walltime.
	MaxBudgetWalltime = 30 * 24 * time.Hour
	// MaxLiveAgents is the highest value of live_agents.
	MaxLiveAgents = 1000
)

// NanoUSD is the number of money units in a US dollar.
const NanoUSD = 1_000_000_000

// The values of [Budget.AllowUnpriced] in a file.
const (
	unpricedRefuse = "refuse"
	unpricedAllow  = "allow"
)

// Budget limits one call of an agent together with its descendants. A zero value is not set.
type Budget struct {
	// NanoUSD is in billionths of a US dollar.
	NanoUSD int64
	// Tokens counts input, cached or not, and output.
	Tokens int64
	// Calls counts requests to models.
	Calls int64
	// Walltime is the working time, without waiting for operators.
	Walltime time.Duration
	// LiveAgents is the maximum number of agents that work at the same time, the agent itself included. Depth is the
	// maximum number of levels of agents below it.
	LiveAgents, Depth int
	// AllowUnpriced permits models without a known price under a budget in US dollars; they count as free.
	AllowUnpriced bool
}

var budgetShape = &shape{
	kind: objectShape, def: "budget",
	doc: "The budget of one call of the agent, with all agents below it. For the root agent it bounds a run. The " +
		"smallest " +
		"of all budgets above an agent holds.",
	fields: []field{
		{name: "usd", shape: &shape{
			kind: numberShape, min: 0.000001, max: MaxBudgetUSD, doc: "US dollars, such as 0.50.",
		}},
		{name: "tokens", shape: wholeNumber("Tokens: input, cached or not, with output.", 1, MaxBudgetTokens)},
		{name: "calls", shape: wholeNumber("Requests to models.", 1, MaxBudgetCalls)},
		{name: "walltime", shape: &shape{
			kind: stringShape, minLen: 1, maxLen: 40, pattern: durationPattern,
			doc: "Time of work, from 1s to 720h, such as 10m. Waiting for an operator does not count.",
			sense: func(n *node) string {
				d, err := time.ParseDuration(n.text)
				if err != nil || d >= minWalltime && d <= MaxBudgetWalltime {
					return ""
				}
				return fmt.Sprintf("walltime is %s and must be from %s to %s.", Span(d), Span(minWalltime),
					Span(MaxBudgetWalltime))
			},
		}},
		{name: "live_agents", shape: wholeNumber("Agents at work at once, this one included.", 1, MaxLiveAgents)},
		{name: "depth", shape: wholeNumber("Levels of agents at work below this one.", 1, MaxDepth)},
		{name: "unpriced", shape: oneWord("The action under usd on a model without a known price: refuse it, or "+
			"count it as free.", unpricedRefuse, unpricedAllow)},
	},
}

// buildBudget builds a budget from a validated node, nil without a limit.
func buildBudget(n *node) *Budget {
	whole := func(key string) int64 { return int64(first(n.get(key).numberOrZero())) }
	usd, _ := n.get("usd").numberOrZero()
	b := Budget{
		NanoUSD: Nano(usd), Tokens: whole("tokens"), Calls: whole("calls"), LiveAgents: int(whole("live_agents")),
		Depth: int(whole("depth")), AllowUnpriced: n.str("unpriced") == unpricedAllow,
	}
	if d, err := time.ParseDuration(n.str("walltime")); err == nil {
		b.Walltime = d
	}
	if b == (Budget{AllowUnpriced: b.AllowUnpriced}) {
		return nil
	}
	return &b
}

// Nano converts US dollars to billionths, rounded.
func Nano(usd float64) int64 { return int64(math.Round(usd * NanoUSD)) }

// USD converts billionths of a US dollar to dollars.
func USD(nano int64) float64 { return float64(nano) / NanoUSD }

// BudgetExcess is a limit that is higher in one budget than in another, or unset. Texts are as in a file; "" means an
// unset limit.
type BudgetExcess struct{ Field, Limit, Wanted string }

// Beyond returns the limits of b that wanted exceeds; nil if b is nil. An unset limit of wanted exceeds a set limit of
// b.
func (b *Budget) Beyond(wanted *Budget) []BudgetExcess {
	if b == nil {
		return nil
	}
	if wanted == nil {
		wanted = new(Budget)
	}
	var list []BudgetExcess
	have, want := b.limits(), wanted.limits()
	for i, h := range have {
		if w := want[i]; h.value != 0 && (w.value == 0 || w.value > h.value) {
			list = append(list, BudgetExcess{h.name, h.text, w.text})
		}
	}
	if b.NanoUSD != 0 && !b.AllowUnpriced && wanted.AllowUnpriced {
		list = append(list, BudgetExcess{"unpriced", unpricedRefuse, unpricedAllow})
	}
	return list
}

// budgetLimit is one limit of a budget; value 0 and text "" mean no limit.
type budgetLimit struct {
	name  string
	value int64
	text  string
}

func (b *Budget) limits() []budgetLimit {
	count := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	usd, walltime := "", ""
	if b.NanoUSD != 0 {
		usd = strconv.FormatFloat(USD(b.NanoUSD), 'f', -1, 64)
	}
	if b.Walltime != 0 {
		walltime = Span(b.Walltime)
	}
	return []budgetLimit{
		{"usd", b.NanoUSD, usd},
		{"tokens", b.Tokens, count(b.Tokens)},
		{"calls", b.Calls, count(b.Calls)},
		{"walltime", int64(b.Walltime), walltime},
		{"live_agents", int64(b.LiveAgents), count(int64(b.LiveAgents))},
		{"depth", int64(b.Depth), count(int64(b.Depth))},
	}
}

// budget sets the budget of a, and warns of limits that have no effect because an ancestor's is lower.
func (b *builder) budget(a *Agent, n *node, parent *Agent) {
	if v := n.get("budget"); v != nil && v.kind == mapNode {
		a.Budget = buildBudget(v)
		for _, x := range b.bounds[parent].Beyond(a.Budget) {
			if x.Wanted != "" && x.Field != "depth" && x.Field != "unpriced" {
				b.diags.warnf(BudgetWiderThanParent, v.at(x.Field).pos, a.Path+".budget."+x.Field,
					"%s is %s, and a budget above has %s: the smaller holds.", x.Field, x.Wanted, x.Limit)
			}
		}
	}
	if bound := b.bounds[parent].And(a.Budget); bound != nil {
		b.bounds[a] = bound
	}
}

// And returns the smaller of each limit of b and c, nil if both have no limit.
func (b *Budget) And(c *Budget) *Budget {
	if b == nil || c == nil {
		return cmp.Or(b, c)
	}
	return &Budget{
		NanoUSD: least(b.NanoUSD, c.NanoUSD), Tokens: least(b.Tokens, c.Tokens), Calls: least(b.Calls, c.Calls),
		Walltime: least(b.Walltime, c.Walltime), LiveAgents: least(b.LiveAgents, c.LiveAgents),
		Depth: least(b.Depth, c.Depth), AllowUnpriced: b.AllowUnpriced && c.AllowUnpriced,
	}
}

// least returns the smaller limit; 0 means no limit.
func least[N int | int64 | time.Duration](a, b N) N {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

package config

import "fmt"

// The periods of [Budget.Per]. Each begins at midnight UTC, a week on Monday.
const (
	PerDay   = "day"
	PerWeek  = "week"
	PerMonth = "month"
)

// UnpricedAllow is the value of [Budget.Unpriced] other than the default, refuse.
const UnpricedAllow = "allow"

// Budget limits the operator's use of models in a period, over all sessions. Zero means no limit.
type Budget struct {
	// USD is the limit in US dollars.
	USD float64 `toml:"usd"`
	// Tokens is the limit of input, cached or not, and output together.
	Tokens int64 `toml:"tokens"`
	// Calls is the limit of requests to models.
	Calls int64 `toml:"calls"`
	// Per is the period, in UTC: day, the default, week or month.
	Per string `toml:"per"`
	// Unpriced is the policy under usd for a model without a known price: refuse, the default, or allow, which
	// counts it as free.
	Unpriced string `toml:"unpriced"`
}

// maxBudgetUSD and maxBudgetCount limit budgets.
const (
	maxBudgetUSD   = 1_000_000
	maxBudgetCount = 1_000_000_000_000
)

func (f *File) validateBudget(data []byte) error {
	b := f.Budget
	if p := b.Per; p != "" && p != PerDay && p != PerWeek && p != PerMonth {
		return f.wrong(data, []string{"budget", "per"},
			fmt.Sprintf("%q is not one of %s, %s, %s", p, PerDay, PerWeek, PerMonth))
	}
	if u := b.Unpriced; u != "" && u != "refuse" && u != UnpricedAllow {
		return f.wrong(data, []string{"budget", "unpriced"}, fmt.Sprintf("%q is neither refuse nor %s", u, UnpricedAllow))
	}
	for _, e := range entries(data) {
		if len(e.path) != 2 || e.path[0] != "budget" {
			continue
		}
		switch key := e.path[1]; {
		case key == "usd" && (b.USD < 0.000001 || b.USD > maxBudgetUSD):
			return f.wrong(data, e.path, fmt.Sprintf("a budget is from 0.000001 to %d US dollars", maxBudgetUSD))
		case key == "tokens" && (b.Tokens < 1 || b.Tokens > maxBudgetCount),
			key == "calls" && (b.Calls < 1 || b.Calls > maxBudgetCount):
			return f.wrong(data, e.path, fmt.Sprintf("a budget is from 1 to %d", maxBudgetCount))
		}
	}
	return nil
}

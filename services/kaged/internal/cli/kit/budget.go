package kit

import (
	"fmt"
	"time"
)

// Budget is a budget with its use, in the API's form. A nil limit is not set.
type Budget struct {
	Limit struct {
		USD           *float64
		Tokens, Calls *int64
		WalltimeMS    *int64 `json:"walltime_ms"`
	}
	Spent struct {
		USD           float64
		Tokens, Calls int64
		WalltimeMS    int64 `json:"walltime_ms"`
	}
}

// Share returns the largest used share of a limit, in percent, and each limit in words.
func (b Budget) Share() (percent int, parts []string) {
	add := func(spent, limit float64, text string) {
		percent = max(percent, int(100*spent/max(limit, 1e-9)))
		parts = append(parts, text)
	}
	if l := b.Limit.USD; l != nil {
		add(b.Spent.USD, *l, fmt.Sprintf("%.4g of %.4g USD", b.Spent.USD, *l))
	}
	if l := b.Limit.Tokens; l != nil {
		add(float64(b.Spent.Tokens), float64(*l), fmt.Sprintf("%d of %d tokens", b.Spent.Tokens, *l))
	}
	if l := b.Limit.Calls; l != nil {
		add(float64(b.Spent.Calls), float64(*l), fmt.Sprintf("%d of %d calls", b.Spent.Calls, *l))
	}
	if l := b.Limit.WalltimeMS; l != nil {
		spent, limit := time.Duration(b.Spent.WalltimeMS)*time.Millisecond, time.Duration(*l)*time.Millisecond
		add(spent.Seconds(), limit.Seconds(), fmt.Sprintf("%s of %s of work", spent.Round(time.Second), limit))
	}
	return percent, parts
}

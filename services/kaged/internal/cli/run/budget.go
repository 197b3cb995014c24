package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/termtext"
)

// budgetMarks are the used shares of a budget, in percent, at which a line is printed.
var budgetMarks = []int{50, 80, 95}

// budgetView is a frame about a budget.
type budgetView struct {
	RunID     string `json:"run_id"`
	Scope     string
	AgentPath string `json:"agent_path"`
	Limit     struct {
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

// budget prints the used part of a budget when its share passes a mark.
func (p *printer) budget(f client.Frame, run string) {
	var m budgetView
	if json.Unmarshal(f.Payload, &m) != nil || m.RunID != run {
		return
	}
	share, parts := m.share()
	mark := 0
	for _, at := range budgetMarks {
		if share >= at {
			mark = at
		}
	}
	owner := "the " + m.Scope
	if m.AgentPath != "" {
		owner = m.AgentPath
	}
	if mark == 0 || p.budgets[owner] >= mark {
		return
	}
	p.budgets[owner] = mark
	p.step("budget of %s: %s", termtext.Line(owner), strings.Join(parts, ", "))
}

// share returns the largest used share of a limit, in percent, and each limit in words.
func (m budgetView) share() (percent int, parts []string) {
	add := func(spent, limit float64, text string) {
		percent = max(percent, int(100*spent/max(limit, 1e-9)))
		parts = append(parts, text)
	}
	if l := m.Limit.USD; l != nil {
		add(m.Spent.USD, *l, fmt.Sprintf("%.4g of %.4g USD", m.Spent.USD, *l))
	}
	if l := m.Limit.Tokens; l != nil {
		add(float64(m.Spent.Tokens), float64(*l), fmt.Sprintf("%d of %d tokens", m.Spent.Tokens, *l))
	}
	if l := m.Limit.Calls; l != nil {
		add(float64(m.Spent.Calls), float64(*l), fmt.Sprintf("%d of %d calls", m.Spent.Calls, *l))
	}
	if l := m.Limit.WalltimeMS; l != nil {
		spent, limit := time.Duration(m.Spent.WalltimeMS)*time.Millisecond, time.Duration(*l)*time.Millisecond
		add(spent.Seconds(), limit.Seconds(), fmt.Sprintf("%s of %s of work", spent.Round(time.Second), limit))
	}
	return percent, parts
}

// setBudget gives the session the budget of the flags, if there are any.
func (f runFlags) setBudget(ctx context.Context, c *client.Client, session string) error {
	budget := map[string]any{}
	if f.budgetUSD > 0 {
		budget["usd"] = f.budgetUSD
	}
	if f.budgetTokens > 0 {
		budget["tokens"] = f.budgetTokens
	}
	if f.budgetWalltime > 0 {
		budget["walltime_ms"] = f.budgetWalltime.Milliseconds()
	}
	if len(budget) == 0 {
		return nil
	}
	return c.Do(ctx, http.MethodPut, "/api/v1/sessions/"+session, map[string]any{"budget": budget}, nil)
}

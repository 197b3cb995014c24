package run

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/termtext"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// budgetMarks are the used shares of a budget, in percent, at which a line is printed.
var budgetMarks = []int{50, 80, 95}

// budgetView is a frame about a budget.
type budgetView struct {
	RunID     string `json:"run_id"`
	Scope     string
	AgentPath string `json:"agent_path"`
	kit.Budget
}

// budget prints the used part of a budget when its share passes a mark.
func (p *printer) budget(f client.Frame, run string) {
	var m budgetView
	if json.Unmarshal(f.Payload, &m) != nil || m.RunID != run {
		return
	}
	share, parts := m.Share()
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

// setBudget sets the session's limits that the flags name, if there are any. The session's other limits stay.
func (f runFlags) setBudget(ctx context.Context, c *client.Client, session string) error {
	changed := map[string]any{}
	if f.budgetUSD > 0 {
		changed["usd"] = f.budgetUSD
	}
	if f.budgetTokens > 0 {
		changed["tokens"] = f.budgetTokens
	}
	if f.budgetCalls > 0 {
		changed["calls"] = f.budgetCalls
	}
	if f.budgetWalltime > 0 {
		changed["walltime_ms"] = f.budgetWalltime.Milliseconds()
	}
	if len(changed) == 0 {
		return nil
	}
	path := "/api/v1/sessions/" + url.PathEscape(session)
	var now struct {
		Budget struct{ Limit map[string]any }
	}
	if err := c.Do(ctx, http.MethodGet, path, nil, &now); err != nil {
		return err
	}
	budget := map[string]any{}
	maps.Copy(budget, now.Budget.Limit)
	maps.Copy(budget, changed)
	maps.DeleteFunc(budget, func(_ string, limit any) bool { return limit == nil })
	return c.Do(ctx, http.MethodPut, path, map[string]any{"budget": budget}, nil)
}

package dsl

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const withPrompt = head + "  model: m\n  system_prompt: ./p.md\n"

// A budget is read with all its limits, in whole billionths of a US dollar; a budget without a limit is nil.
func TestBudget(t *testing.T) {
	const all = "  budget: {usd: 0.1, tokens: 5000, calls: 7, walltime: 1m30s, live_agents: 3, depth: 2, " +
		"unpriced: allow}\n"
	for yaml, want := range map[string]*Budget{
		"": nil,
		all: {
			NanoUSD: 100_000_000, Tokens: 5000, Calls: 7, Walltime: 90 * time.Second, LiveAgents: 3, Depth: 2,
			AllowUnpriced: true,
		},
		"  budget: {usd: 2}\n":            {NanoUSD: 2 * NanoUSD},
		"  budget: {unpriced: refuse}\n":  nil,
		"  budget: {unpriced: allow}\n":   nil,
		"  budget: {usd: 0.000001}\n":     {NanoUSD: 1000},
		"  budget: {tokens: 1, usd: 5}\n": {NanoUSD: 5 * NanoUSD, Tokens: 1},
	} {
		r := parse(t, only(withPrompt+yaml))
		if r.Failed() {
			t.Fatalf("%s: %v", yaml, r.Diagnostics)
		}
		if d := cmp.Diff(want, r.Project.Primary.Budget); d != "" {
			t.Errorf("%s: %s", yaml, d)
		}
	}
}

// An invalid budget is refused with its position.
func TestNoBudget(t *testing.T) {
	for _, yaml := range []string{
		"usd: 0", "usd: -1", "usd: 1000001", "usd: much", "tokens: 0", "tokens: 1.5", "calls: 0", "walltime: 10",
		"walltime: 10ms", "walltime: 721h", "live_agents: 0", "live_agents: 1001", "depth: 0", "depth: 17", "unpriced: maybe",
		"eur: 5",
	} {
		if r := parse(t, only(withPrompt+"  budget: {"+yaml+"}\n")); !r.Failed() {
			t.Errorf("%s is taken", yaml)
		}
	}
}

// A limit that is higher than an ancestor's has no effect, and a warning at its position says so.
func TestABudgetIsNarrowed(t *testing.T) {
	yaml := withPrompt + "  budget: {usd: 1, tokens: 100, depth: 2}\n  subagents:\n" +
		"    a:\n      model: m\n      system_prompt: ./p.md\n      cage: disabled\n" +
		"      budget: {usd: 0.5, tokens: 200, calls: 9, depth: 3}\n      subagents:\n" +
		"        b: {model: m, system_prompt: ./p.md, cage: disabled, budget: {usd: 0.75, calls: 8}}\n"
	r := parse(t, only(yaml))
	if r.Failed() {
		t.Fatal(r.Diagnostics)
	}
	var got []string
	for _, d := range r.Diagnostics {
		if d.Kind == BudgetWiderThanParent && d.Severity == Warning && d.Pos.Line > 0 {
			got = append(got, d.Path+": "+d.Message)
		}
	}
	want := []string{
		"primary.subagents.a.budget.tokens: tokens is 200, and a budget above has 100: the smaller holds.",
		"primary.subagents.a.subagents.b.budget.usd: usd is 0.75, and a budget above has 0.5: the smaller holds.",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The JSON Schema has the budget.
func TestTheSchemaHasBudgets(t *testing.T) {
	schema, err := Schema(Version)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(schema); !strings.Contains(text, `"budget"`) || !strings.Contains(text, `"unpriced"`) {
		t.Error("the schema has no budget")
	}
}

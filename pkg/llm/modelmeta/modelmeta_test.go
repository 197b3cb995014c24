package modelmeta_test

import (
	"math"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
)

// A model is found by its id, and also by common spellings and those of routers; unknown models are not guessed.
func TestLookup(t *testing.T) {
	for _, c := range []struct {
		provider, driver, model string
		context                 int
	}{
		{"anthropic", "anthropic", "claude-opus-4-5", 200000},
		{"anthropic", "anthropic", "claude-opus-4-5-20251101", 200000},
		{"anthropic", "anthropic", "claude-opus-4-5-20300101", 200000},
		{"anthropic", "anthropic", "claude-opus-4-5-latest", 200000},
		{"anthropic", "anthropic", "anthropic/claude-opus-4-5", 200000},
		{"Claude", "anthropic", "Claude-Opus-4-5", 200000},
		{"our-proxy", "anthropic", "claude-opus-4-5", 200000},
		{"openai", "openai", "gpt-4o", 128000},
		{"openai", "openai", "gpt-4o-2024-05-13", 128000},
		{"work", "openai-chat", "gpt-4o", 128000},
		{"gemini", "google", "models/gemini-2.5-pro", 1048576},
		{"openrouter", "openai-chat", "anthropic/claude-opus-4.5", 200000},
		{"anthropic", "anthropic", "claude", 0},
		{"anthropic", "anthropic", "gpt-4o", 0},
		{"ollama", "openai-chat", "llama3.2", 0},
		{"work", "other", "gpt-4o", 0},
		{"", "", "", 0},
		{"anthropic", "rehearsal", "claude-opus-4-5", 0},
	} {
		m, ok := modelmeta.Lookup(c.provider, c.driver, c.model)
		if ok != (c.context > 0) || m.ContextWindow != c.context {
			t.Errorf("%s %s %s: %v %+v", c.provider, c.driver, c.model, ok, m)
		}
	}
	m, _ := modelmeta.Lookup("anthropic", "anthropic", "claude-opus-4-5")
	if m.MaxOutput != 64000 || !m.Reasoning || !m.Images || !near(m.Pricing.Input, 5e-6) ||
		!near(m.Pricing.Output, 25e-6) {
		t.Errorf("%+v", m)
	}
}

// Each kind of token has its price (H-STREAM-EV-07); long requests may have another price; a model without a price per
// token has no cost.
func TestCost(t *testing.T) {
	m := modelmeta.Meta{
		Pricing: modelmeta.Pricing{Input: 1, Output: 10, CacheRead: 0.1, CacheWrite: 2},
		Tiers: []modelmeta.Tier{
			{Above: 100, Pricing: modelmeta.Pricing{Input: 2, Output: 20}},
			{Above: 1000, Pricing: modelmeta.Pricing{Input: 3}},
		},
	}
	for _, c := range []struct {
		usage llm.Usage
		want  llm.Cost
	}{
		{llm.Usage{}, llm.Cost{}},
		{
			llm.Usage{Input: 50, Output: 7, Reasoning: 4, CacheRead: 40, CacheWrite: 10},
			llm.Cost{Input: 50, Output: 30, Reasoning: 40, CacheRead: 4, CacheWrite: 20, Total: 144},
		},
		{llm.Usage{Input: 50, CacheRead: 51, Output: 1}, llm.Cost{Input: 100, Output: 20, Total: 120}},
		{llm.Usage{Input: 2000, Output: 1}, llm.Cost{Input: 6000, Total: 6000}},
		{llm.Usage{Output: 3, Reasoning: 9}, llm.Cost{Reasoning: 30, Total: 30}},
	} {
		got, ok := modelmeta.Cost(c.usage, m)
		if !ok || !near(got.Total, c.want.Total) || !near(got.Reasoning, c.want.Reasoning) ||
			!near(got.Output, c.want.Output) ||
			!near(got.Input, c.want.Input) {
			t.Errorf("%+v costs %+v", c.usage, got)
		}
	}
	if _, ok := modelmeta.Cost(llm.Usage{Input: 1}, modelmeta.Meta{}); ok {
		t.Error("what has no price has a cost")
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The first look-up parses the catalogue; its memory stays small.
func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		modelmeta.Lookup("openrouter", "openai-chat", "anthropic/claude-opus-4.5")
	}
}

package models

import (
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// A driver is opened by its name. The error for an unknown driver lists the known drivers.
func TestOpen(t *testing.T) {
	opened := 0
	m := Models{"a": func(llm.Target) (llm.Driver, error) { opened++; return nil, nil }, "b": nil}
	if _, err := m.Open(llm.Target{Driver: "a"}); err != nil || opened != 1 {
		t.Error(err, opened)
	}
	_, err := m.Open(llm.Target{Provider: "p", Driver: "new"})
	if f := fault.From(err); f.Code != fault.ProviderNotConfigured ||
		f.Msg != `The provider p names the driver "new", which this kaged does not have; it has [a b].` {
		t.Error(err)
	}
}

// A remembered driver is made once per script, and the number of kept drivers is limited.
func TestRemembered(t *testing.T) {
	made := 0
	open := Remembered(2, func(t llm.Target) (llm.Driver, error) {
		made++
		if t.Model == "bad" {
			return nil, fault.New(fault.ProviderNotConfigured, "No.")
		}
		return nil, nil
	})
	for _, script := range []string{"a", "a", "b", "a", "c", "a"} {
		if _, err := open(llm.Target{Script: []byte(script)}); err != nil {
			t.Error(err)
		}
	}
	if made != 4 {
		t.Errorf("made %d", made)
	}
	if _, err := open(llm.Target{Model: "bad"}); err == nil {
		t.Error("no error")
	}
}

// A known model has a price. An unknown model and a rehearsal are unpriced.
func TestPrices(t *testing.T) {
	u := llm.Usage{Input: 1000, Output: 10}
	if c, ok := (Prices{}).Cost(llm.Target{
		Provider: "anthropic", Driver: "anthropic", Model: "claude-sonnet-4-5",
	}, u); !ok || c.Total <= 0 {
		t.Errorf("%+v %t", c, ok)
	}
	for _, target := range []llm.Target{
		{Provider: "x", Driver: "openai-chat", Model: "no-such-model"}, {Driver: "rehearsal", Model: "gpt-4o"},
	} {
		if c, ok := (Prices{}).Cost(target, u); ok {
			t.Errorf("%+v costs %+v", target, c)
		}
	}
}

// The operator's facts about a model override the catalogue one by one: a price of zero is a price, and a missing
// window is the catalogue's.
func TestFactsOfTheOperator(t *testing.T) {
	known := llm.Target{Provider: "anthropic", Driver: "anthropic", Model: "claude-sonnet-4-5"}
	listed := (Prices{}).Window(known)
	u := llm.Usage{Input: 1_000_000, Output: 2_000_000, CacheRead: 4_000_000, CacheWrite: 8_000_000}
	for name, c := range map[string]struct {
		target         llm.Target
		facts          llm.Facts
		cost           float64
		priced         bool
		window, output int
	}{
		"unknown model": {
			llm.Target{Provider: "box", Driver: "openai-chat", Model: "no-such-model"},
			llm.Facts{ContextWindow: 40960, MaxOutput: 100, Price: &llm.Price{
				Input: 1, Output: 10, CacheRead: 0.5, CacheWrite: 2,
			}},
			1 + 20 + 2 + 16, true, 40960, 100,
		},
		"free":       {known, llm.Facts{Price: &llm.Price{}, MaxOutput: 7}, 0, true, listed, 7},
		"no price":   {llm.Target{Provider: "box", Model: "no-such-model"}, llm.Facts{ContextWindow: 9}, 0, false, 9, 0},
		"own window": {known, llm.Facts{ContextWindow: 9, Price: &llm.Price{Output: 1}, MaxOutput: 1}, 2, true, 9, 1},
	} {
		c.target.Facts = c.facts
		cost, priced := (Prices{}).Cost(c.target, u)
		if priced != c.priced || cost.Total < c.cost-1e-9 || cost.Total > c.cost+1e-9 {
			t.Errorf("%s: costs %v %t, want %v %t", name, cost.Total, priced, c.cost, c.priced)
		}
		if w, o := (Prices{}).Window(c.target), (Prices{}).MaxOutput(c.target); w != c.window || o != c.output {
			t.Errorf("%s: window %d, output %d, want %d, %d", name, w, o, c.window, c.output)
		}
	}
	if listed == 0 {
		t.Error("the catalogue has no window of a known model")
	}
}

package models

import (
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// A driver is opened by its name; one that this build does not have is said with those it has.
func TestOpen(t *testing.T) {
	opened := 0
	m := Models{"a": func(llm.Target) (llm.Driver, error) { opened++; return nil, nil }, "b": nil}
	if _, err := m.Open(llm.Target{Driver: "a"}); err != nil || opened != 1 {
		t.Error(err, opened)
	}
	_, err := m.Open(llm.Target{Provider: "p", Driver: "new"})
	if f := fault.From(err); f.Code != fault.ProviderNotConfigured || f.Msg != `The provider p names the driver "new", which this kaged does not have; it has [a b].` {
		t.Error(err)
	}
}

// A remembered driver is made once for a script, and their number is bounded.
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

// A known model has a price, an unknown one and a rehearsal do not.
func TestPrices(t *testing.T) {
	u := llm.Usage{Input: 1000, Output: 10}
	if c, ok := (Prices{}).Cost(llm.Target{Provider: "anthropic", Driver: "anthropic", Model: "claude-sonnet-4-5"}, u); !ok || c.Total <= 0 {
		t.Errorf("%+v %t", c, ok)
	}
	for _, target := range []llm.Target{{Provider: "x", Driver: "openai-chat", Model: "no-such-model"}, {Driver: "rehearsal", Model: "gpt-4o"}} {
		if c, ok := (Prices{}).Cost(target, u); ok {
			t.Errorf("%+v costs %+v", target, c)
		}
	}
}

// Package models opens the drivers of model targets and knows the prices of models.
package models

import (
	"crypto/sha256"
	"slices"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
)

// Opener returns a driver for a target. It touches no network.
type Opener func(llm.Target) (llm.Driver, error)

// Models opens drivers by their names in configurations. It is immutable.
type Models map[string]Opener

// Open returns a driver for a target. It fails with provider_not_configured for an unknown driver.
func (m Models) Open(target llm.Target) (llm.Driver, error) {
	open, ok := m[target.Driver]
	if !ok {
		return nil,
			fault.New(fault.ProviderNotConfigured, "The provider %s names the driver %q, which this kaged does not have; it "+
				"has %v.",
				target.Provider, target.Driver, m.names()).With("provider", target.Provider)
	}
	return open(target)
}

func (m Models) names() []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Remembered returns an opener that keeps up to n drivers of open. It reuses a driver for targets with equal
// provider, model and script, so other fields must not matter. It is safe for concurrent use.
func Remembered(n int, open Opener) Opener {
	var mu sync.Mutex
	kept := map[[sha256.Size]byte]llm.Driver{}
	return func(t llm.Target) (llm.Driver, error) {
		key := sha256.Sum256([]byte(t.Provider + "\x00" + t.Model + "\x00" + string(t.Script)))
		mu.Lock()
		defer mu.Unlock()
		if d, ok := kept[key]; ok {
			return d, nil
		}
		d, err := open(t)
		if err != nil {
			return nil, err
		}
		if len(kept) >= n {
			clear(kept)
		}
		kept[key] = d
		return d, nil
	}
}

// Prices knows the prices of models: from the target's facts, and from [modelmeta].
type Prices struct{}

// Cost returns the price of usage, false if the model's prices are unknown.
func (Prices) Cost(target llm.Target, usage llm.Usage) (llm.Cost, bool) {
	if p := target.Facts.Price; p != nil {
		const each = 1e6
		cost, _ := modelmeta.Cost(usage, modelmeta.Meta{Pricing: modelmeta.Pricing{
			Input: p.Input / each, Output: p.Output / each, CacheRead: p.CacheRead / each, CacheWrite: p.CacheWrite / each,
		}})
		return cost, true // a price of zero is a known price
	}
	meta, known := modelmeta.Lookup(target.Provider, target.Driver, target.Model)
	if !known {
		return llm.Cost{}, false
	}
	return modelmeta.Cost(usage, meta)
}

// Window returns the context window of a model in tokens, 0 if unknown.
func (Prices) Window(target llm.Target) int {
	if n := target.Facts.ContextWindow; n > 0 {
		return n
	}
	meta, _ := modelmeta.Lookup(target.Provider, target.Driver, target.Model)
	return meta.ContextWindow
}

// MaxOutput returns the most output tokens of an answer of a model, 0 if unknown.
func (Prices) MaxOutput(target llm.Target) int {
	if n := target.Facts.MaxOutput; n > 0 {
		return n
	}
	meta, _ := modelmeta.Lookup(target.Provider, target.Driver, target.Model)
	return meta.MaxOutput
}

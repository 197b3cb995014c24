// Package models opens the drivers of model targets and knows what models cost.
package models

import (
	"slices"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
	"kaged.dev/services/harness/internal/core/loop"
)

// Opener makes a driver for a target. It touches no network.
type Opener func(llm.Target) (llm.Driver, error)

// Models opens drivers by their names in configurations. It is never changed once made.
type Models map[string]Opener

// Open returns a driver for a target. It fails with provider_not_configured for a driver that this build does not have.
func (m Models) Open(target llm.Target) (llm.Driver, error) {
	open, ok := m[target.Driver]
	if !ok {
		return nil, fault.New(fault.ProviderNotConfigured, "The provider %s names the driver %q, which this kaged does not have; it has %v.",
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

// Prices knows the prices of the models in [modelmeta].
type Prices struct{}

// Cost returns what usage costs, false where the model's prices are not known.
func (Prices) Cost(target llm.Target, usage llm.Usage) (loop.Cost, bool) {
	meta, known := modelmeta.Lookup(target.Provider, target.Driver, target.Model)
	if !known {
		return loop.Cost{}, false
	}
	charge, priced := modelmeta.Cost(usage, meta)
	return loop.Cost(charge), priced
}

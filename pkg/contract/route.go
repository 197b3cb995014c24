package contract

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// RootRoute is the name of the route that the root agent's calls go to in place of its alias's: a session has chosen
// its model.
const RootRoute = ""

// Route says where the calls of an alias go: to the first target, and to the next while no answer was accepted.
type Route struct {
	// Alias is the alias, or the "provider:model" that stands in its place.
	Alias   string
	Targets []Target
}

// Target is one place a model call can go.
type Target struct {
	llm.Target
	// Unusable is why it cannot be used, nil if it can. It is fit to show.
	Unusable *fault.Error
}

package contract

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// RootRoute is the name of the route for the root agent's calls if a session has chosen its model; it replaces the
// route of the agent's alias.
const RootRoute = ""

// Route lists the targets for the calls of an alias: the first one, and the next as long as no answer was accepted.
type Route struct {
	// Alias is the alias, or the "provider:model" used instead of one.
	Alias   string
	Targets []Target
}

// Target is one target of a model call.
type Target struct {
	llm.Target
	// Unusable is the reason why it cannot be used, nil for a usable target. It may be shown to operators.
	Unusable *fault.Error
}

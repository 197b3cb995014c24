package contract

import "kaged.dev/pkg/fault"

// CageRequired refuses an uncaged agent in a deployment shared by several operators.
func CageRequired(agent string) *fault.Error {
	return fault.New(fault.CageUnavailable, "The agent %s has no cage, and this deployment runs caged agents only: give "+
		"it cage: in the project file.", agent).With("reason", "cage_required").With("agent", agent)
}

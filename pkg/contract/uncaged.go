package contract

import "kaged.dev/pkg/fault"

// CageRequired refuses an agent without a cage where several operators share a deployment.
func CageRequired(agent string) *fault.Error {
	return fault.New(fault.CageUnavailable, "The agent %s has no cage, and this deployment runs caged agents only: give "+
		"it cage: in the project file.", agent).With("reason", "cage_required").With("agent", agent)
}

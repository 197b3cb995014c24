package tool

import (
	"kaged.dev/pkg/contract"
)

// Effect is the effect of one call.
type Effect struct {
	// Category is the call's own.
	Category Category
	// Reasons say why a call of category Admin needs approval, one sentence each.
	Reasons []string
}

// NeedsApproval is the end of a call that was not made because an operator has to allow it. It is no failure: the
// caller asks, and makes the call again with a grant.
type NeedsApproval struct{ Approval contract.Subject }

// Error implements error.
func (e *NeedsApproval) Error() string { return "the call needs an operator's approval" }

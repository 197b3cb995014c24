package tool

import (
	"kaged.dev/pkg/contract"
)

// Effect is the effect of one call.
type Effect struct {
	// Category is the category of the call itself.
	Category Category
	// Reasons are the reasons why a call of category Admin needs approval, one sentence each.
	Reasons []string
}

// NeedsApproval is the outcome of a call that was not run because an operator has to approve it. It is no failure: the
// caller asks for approval, and repeats the call with a grant.
type NeedsApproval struct{ Approval contract.Subject }

// Error implements error.
func (e *NeedsApproval) Error() string { return "the call needs an operator's approval" }

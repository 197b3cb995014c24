package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Effect is what one call would do to the world.
type Effect struct {
	// Category is the call's own.
	Category Category
	// Reasons say why a call of category Admin needs approval, one sentence each.
	Reasons []string
}

// Approval is what an operator is asked: whether a call may act as it would if it were made now.
type Approval struct {
	// Tool is the canonical name, Agent the tree path of the caller.
	Tool, Agent string
	// Reasons say why it needs approval, one sentence each.
	Reasons []string
	// Command is the exact command it runs, Cwd the folder it runs in as results name it; "" for none.
	Command, Cwd string
	// Paths are the files it changes, as results name them.
	Paths []string
	// Preview is the change as a unified diff, "" where it cannot be shown.
	Preview string
}

// Fingerprint stands for the approval: that of another is another.
func (a *Approval) Fingerprint() string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // it holds nothing but texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// NeedsApproval is the end of a call that was not made because an operator has to allow it. It is no failure: the caller
// asks, and makes the call again with a grant.
type NeedsApproval struct{ Approval Approval }

// Error implements error.
func (e *NeedsApproval) Error() string { return "the call needs an operator's approval" }

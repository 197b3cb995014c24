package record

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// ApprovalState is the state of a request for approval.
type ApprovalState string

// The states; all but the first are final.
const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	// ApprovalExpired: no answer came in time, which counts as a refusal.
	ApprovalExpired ApprovalState = "expired"
	// ApprovalClosed: its run ended before an answer.
	ApprovalClosed ApprovalState = "closed"
)

// ApprovalStates are the names of the states.
var ApprovalStates = []ApprovalState{ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalClosed}

// Approval is a tool call an operator was asked about.
type Approval struct {
	ID, SessionID, RunID, CallID string
	// InvocationID is the invocation of the call, "" for the root agent.
	InvocationID           string
	State                  ApprovalState
	Subject                contract.Subject
	RequestedAt, ExpiresAt int64
	// ResolvedAt is 0 while it is pending. ResolvedBy is the operator who answered, or ""; Comment is the
	// operator's text for the agent.
	ResolvedAt          int64
	ResolvedBy, Comment string
	// StandingID is the standing approval that the answer made, or that gave it; it may be "".
	StandingID string
}

// Resolved returns the approval with its end.
func (a Approval) Resolved(r Resolution, at int64) Approval {
	a.State, a.ResolvedBy, a.Comment, a.ResolvedAt = r.State, r.By, r.Comment, at
	if r.Standing != nil {
		a.StandingID = r.Standing.ID
	}
	return a
}

// Resolution is how an approval ends.
type Resolution struct {
	// State is one of the final ones.
	State ApprovalState
	// By is the operator who answered, or ""; Comment is the operator's text for the agent.
	By, Comment string
	// Standing is the standing approval that the answer makes, or that gives it; it may be nil.
	Standing *Standing
}

// ApprovalNotFound is the answer for an approval that its session does not have.
func ApprovalNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no request for approval %q in this session.", id)
}

// ApprovalOver is the answer to an answer that comes too late.
func ApprovalOver(state ApprovalState) *fault.Error {
	return fault.New(fault.Conflict, "There is nothing to answer: the request is %s.", state).
		With("current_state", string(state))
}

package record

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// ApprovalState is the state of a request for approval.
type ApprovalState string

// The states; all but pending are final.
const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	// ApprovalExpired: no answer came in time; the call is refused.
	ApprovalExpired ApprovalState = "expired"
	// ApprovalClosed: the run or the agent ended before an answer.
	ApprovalClosed ApprovalState = "closed"
)

// ApprovalStates are the names of the states.
var ApprovalStates = []ApprovalState{ApprovalPending, ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalClosed}

// Approval is a stored question about one tool call, and its answer.
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
	// StandingID is the standing approval that the answer created, or that was the answer; it may be "".
	StandingID string
}

// Resolved returns the approval with its answer.
func (a Approval) Resolved(r Resolution, at int64) Approval {
	a.State, a.ResolvedBy, a.Comment, a.ResolvedAt = r.State, r.By, r.Comment, at
	if r.Standing != nil {
		a.StandingID = r.Standing.ID
	}
	return a
}

// Resolution is the answer to an approval, or its end without one.
type Resolution struct {
	// State is one of the final ones.
	State ApprovalState
	// By is the operator who answered, or ""; Comment is the operator's text for the agent.
	By, Comment string
	// Standing is the standing approval that the answer creates, or that is the answer; it may be nil.
	Standing *Standing
}

// ApprovalNotFound is the error for an approval that its session does not have.
func ApprovalNotFound(id string) *fault.Error {
	return fault.New(fault.NotFound, "There is no request for approval %q in this session.", id)
}

// ApprovalOver is the error for an answer to an approval that is no longer pending.
func ApprovalOver(state ApprovalState) *fault.Error {
	return fault.New(fault.Conflict, "There is nothing to answer: the request is %s.", state).
		With("current_state", string(state))
}

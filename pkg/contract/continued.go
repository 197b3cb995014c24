package contract

import "kaged.dev/pkg/llm"

// Continued is an invocation of a run that was handed over, as it was then: the next harness goes on there.
type Continued struct {
	// InvocationID is "" for the root agent, and so are its caller ParentID and the caller's call CallID.
	InvocationID, ParentID, CallID string
	// Messages are the completed steps of an agent below the root. Those of the root agent are in the history.
	Messages []llm.Message
	// Steps is how many steps are complete.
	Steps int
	// Open is the turn of the step at work, nil between two steps, and Results are its results so far.
	Open    *Turn
	Results []llm.ToolResult
	// Asked are its calls that an operator was asked about.
	Asked []AskedCall
	// Usage and Stats are those of all turns, Open included. Stats are nil if none was measured.
	Usage llm.Usage
	Stats *llm.Stats
	// Calls is how many model calls it has asked for.
	Calls int
	// Spent counts against its budget and those of its callers.
	Spent []SpentBefore
	// WorkedMS is how long it has worked, in milliseconds.
	WorkedMS int64
	// FilesChanged are the files that it changed.
	FilesChanged []string
}

// AskedCall is a call that an operator was asked about, and the approval.
type AskedCall struct{ CallID, ApprovalID string }

// SpentBefore is the use of models by an agent before its run was handed over.
type SpentBefore struct {
	Agent  string
	Amount Amount
}

package contract

import (
	"encoding/json"
	"math"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// Limits of a call of an agent by its parent.
const (
	// MaxPrompt is the maximum size of a prompt in bytes.
	MaxPrompt = 256 << 10
	// MaxAgentText is the maximum size in bytes of a child's text in the parent's result.
	MaxAgentText = 64 << 10
	// MaxFilesChanged is the maximum length of the list of files in the parent's result.
	MaxFilesChanged = 200
)

// AgentTool is the prefix of the name of the tool with which an agent calls a child. The child's key follows.
const AgentTool = "agent-"

// The records of invocations.
const (
	DelegationStarted   = "delegation.started"
	DelegationCompleted = "delegation.completed"
)

// AgentStarted is the start of an invocation: a call of an agent by its parent. It is the first event of that
// invocation, and Audit names the agent.
type AgentStarted struct {
	// ParentID is the invocation of the caller, empty for the root agent's. CallID is the caller's tool call.
	ParentID, CallID string
	// Name is the agent's key in its parent's subagents.
	Name, Prompt string
	// Cage is [CagePending] or [Uncaged].
	Cage CageStatus
	// Tools are the names of its tools, those of its children last.
	Tools     []string
	StartedAt int64
	Audit     Record
}

// AgentEnded is the end of an invocation and its last event.
type AgentEnded struct {
	Outcome Outcome
	// Err is the error of a failed invocation, else nil.
	Err *fault.Error
	// Text is the agent's last text; Truncated means that it was cut to [MaxAgentText].
	Text      string
	Truncated bool
	// Steps, Usage and Cost count the agent's own turns, without its descendants. Cost is nil if it is unknown.
	Steps      int
	Usage      llm.Usage
	Cost       *llm.Cost
	DurationMS int64
	// FilesChanged are the files changed by the agent and its descendants, sorted.
	FilesChanged []string
	EndedAt      int64
	Audit        Record
}

// Name returns the name of an outcome in the API: completed, failed or cancelled.
func (o Outcome) Name() string {
	switch o {
	case Completed:
		return "completed"
	case Cancelled:
		return "cancelled"
	}
	return "failed"
}

// Answer is a child's result as given to its caller.
type Answer struct {
	InvocationID string
	Ended        AgentEnded
	// Usage and Cost count the child and its descendants. Cost is nil if it is unknown.
	Usage llm.Usage
	Cost  *llm.Cost
	// Todos is the outcome of the proposed todos, nil without proposals.
	Todos *ProposedTodos
}

// ProposedTodos is the outcome of the todos that a child proposed in its text.
type ProposedTodos struct {
	// Count is the number of todos. They await a review unless Review is auto.
	Count  int    `json:"count"`
	Review string `json:"review"`
	// Origin is the tree path of the child.
	Origin string `json:"origin_agent"`
	// Error is a sentence with the reason why they were not stored.
	Error string `json:"error,omitempty"`
}

// Content returns the answer as the result of the call, which is an error unless the child has completed.
func (a Answer) Content() string {
	e := a.Ended
	shown := answerJSON{
		InvocationID: a.InvocationID, Outcome: e.Outcome.Name(), Text: valid(e.Text), Truncated: e.Truncated,
		Steps: e.Steps, Tokens: llm.AddCounts(a.Usage.TotalInput(), a.Usage.Output), DurationMS: e.DurationMS,
		FilesChanged: allValid(e.FilesChanged), Todos: a.Todos,
	}
	if a.Cost != nil && !math.IsNaN(a.Cost.Total) && !math.IsInf(a.Cost.Total, 0) {
		shown.CostUSD = &a.Cost.Total
	}
	if e.Err != nil {
		shown.Error = &answerError{Code: e.Err.Code.String(), Message: valid(e.Err.Msg)}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		panic(err) // the value holds only texts and finite numbers
	}
	return string(text)
}

type answerJSON struct {
	InvocationID string         `json:"invocation_id"`
	Outcome      string         `json:"outcome"`
	Text         string         `json:"text"`
	Truncated    bool           `json:"truncated"`
	Steps        int            `json:"steps"`
	Tokens       int64          `json:"tokens"`
	CostUSD      *float64       `json:"cost_usd"`
	DurationMS   int64          `json:"duration_ms"`
	FilesChanged []string       `json:"files_changed"`
	Todos        *ProposedTodos `json:"todos,omitempty"`
	Error        *answerError   `json:"error,omitempty"`
}

type answerError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ClipAgentText cuts an agent's text to the limit for its parent, and reports whether it cut.
func ClipAgentText(text string) (string, bool) {
	if len(text) <= MaxAgentText {
		return text, false
	}
	return clip.Bytes(text, MaxAgentText), true
}

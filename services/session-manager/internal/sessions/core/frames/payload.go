package frames

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/llm"
)

// Payload is the content of a frame. Each type here belongs to the one frame type that Kind returns. The fields are
// those of the frame's message in kaged.api.v1.
type Payload interface {
	// Kind returns the type of the frame, which determines its channel.
	Kind() frametype.Type
}

// Renderer writes payloads as JSON for clients.
type Renderer interface {
	// Append appends p as JSON to dst. The JSON has at most Limit bytes, provided that the texts with a limit of
	// MaxText keep it. Other long values are shortened; the input and the output of a tool are marked as truncated.
	// The stored message is complete.
	Append(dst []byte, p Payload) ([]byte, error)
}

// Limit is the largest payload and MaxFrame the largest frame, in bytes. MaxText is the longest text in a frame
// type whose text is split rather than shortened, in bytes of JSON.
const (
	Limit    = 256 << 10
	MaxFrame = Limit + 128
	MaxText  = Limit - 4<<10
)

// MessageStart says that a model begins to answer.
type MessageStart struct {
	MessageID, RunID, Role, Provider, Model string
	// Rehearsal says that the model is a scripted one.
	Rehearsal bool
	StartedAt int64
}

// MessageDelta is a piece of a model's output, at most MaxText long.
type MessageDelta struct {
	MessageID, Delta string
	Thinking         bool
}

// MessageToolCall says that a tool is about to run.
type MessageToolCall struct {
	MessageID string
	Call      llm.ToolCall
}

// MessageToolOutput is a piece of a running tool's output, at most MaxText long.
type MessageToolOutput struct{ MessageID, ToolCallID, Stream, Text string }

// MessageToolResult is a tool's result.
type MessageToolResult struct {
	MessageID string
	Result    llm.ToolResult
	// Input is the parameters as JSON.
	Input string
}

// MessageEnd says that a run's message is complete.
type MessageEnd struct {
	MessageID    string
	EndedAt      int64
	StopReason   llm.StopReason
	Usage        *llm.Usage
	Stats        *llm.Stats
	ErrorMessage string
}

// MessageRetract voids the deltas of a message's step: the model's answer broke off and is requested again.
type MessageRetract struct {
	MessageID string
	Step      int
	Reason    string
}

// MessageSteer is the state of an operator's message to an active run. RunID may be "". AfterStep is 0 unless the
// message is delivered.
type MessageSteer struct {
	MessageID, RunID, State, Content string
	AfterStep                        int
	At                               int64
}

// SubagentRetract is a [MessageRetract] for an agent below the root.
type SubagentRetract struct {
	InvocationID string
	Step         int
	Reason       string
}

// RunStarted says that work on a message has begun.
type RunStarted struct{ RunID, MessageID string }

// RunEnded holds the outcome and usage of a run. Error is nil unless it failed. CostUSD is nil if a price is
// unknown.
type RunEnded struct {
	RunID, Outcome      string
	Error               *fault.Error
	Steps               int
	TokensIn, TokensOut int64
	CostUSD             *float64
}

// SubagentStart says that an agent called another. ParentID is "" if the caller is the root agent.
type SubagentStart struct {
	InvocationID, ParentID, RunID, ToolCallID, Name, AgentPath, CageStatus string
	StartedAt                                                              int64
}

// SubagentOutput is output of an agent below the root, at most MaxText long. Part is "text", "thinking", or "tool"
// for a tool's output.
type SubagentOutput struct{ InvocationID, Stream, Part, Text, ToolCallID string }

// SubagentToolCall says that a tool of an agent below the root is about to run.
type SubagentToolCall struct {
	InvocationID string
	Call         llm.ToolCall
}

// SubagentToolResult is the result of a tool of an agent below the root.
type SubagentToolResult struct {
	InvocationID string
	Result       llm.ToolResult
}

// SubagentEnd is the end of an invocation, with its usage. Error is nil unless it failed. CostUSD is nil if a price
// is unknown.
type SubagentEnd struct {
	InvocationID, Outcome string
	Exit                  int
	Error                 *fault.Error
	Steps                 int
	Usage                 llm.Usage
	CostUSD               *float64
	FilesChanged          []string
	EndedAt               int64
}

// RunCage is the cage of an agent in a run, or the cage's end. InvocationID is "" for the root agent.
type RunCage struct {
	RunID, InvocationID, AgentPath, Status, Tier string
	// BestEffort are the parts of the policy that are enforced by polling.
	BestEffort []string
	// Policy is the policy in one line. Ended is the reason if the cage ended before the run.
	Policy, Ended string
	// Notes are hints for the operator about a new cage, each a sentence.
	Notes []string
	// Found are the findings in the cage's writable folders, known at its end.
	Found []contract.Finding
}

// Told is an event of a run that needs no conversion.
type Told struct {
	SessionID, RunID, InvocationID string
	Event                          contract.Told
}

// CompactionFlagged is the operator's judgement of a compaction. Flag may be nil. Notes is the length of the
// operator's notes.
type CompactionFlagged struct {
	SessionID, CompactionID string
	Flag                    *string
	Notes                   int
}

// CompactionUndone says that a compaction no longer applies.
type CompactionUndone struct{ SessionID, CompactionID, AgentPath string }

// PromptHeld says that a run continues with the accepted text of a prompt or of the project's instructions: agents
// can write the file, and it was changed, added or removed. Accepted is "" if the run has no such text, Found is ""
// for a missing file.
type PromptHeld struct{ RunID, Path, Accepted, Found string }

// SessionState is the session's new state.
type SessionState struct{ State, BlockedReason string }

// ApprovalRequested says that a tool call waits for an operator's answer.
type ApprovalRequested struct {
	ApprovalID, RunID, InvocationID, MessageID, ToolCallID string
	Subject                                                contract.Subject
	RequestedAt, ExpiresAt                                 int64
}

// ApprovalResolved says that the tool call no longer waits. ResolvedBy and Comment may be "".
type ApprovalResolved struct {
	ApprovalID, RunID, InvocationID, ToolCallID, State, ResolvedBy, Comment string
	ResolvedAt                                                              int64
	// StandingID is the standing approval that the answer created, or that was the answer; it may be "".
	StandingID string
}

// IssueChanged says that an issue of the session's project was filed or changed.
type IssueChanged struct {
	ProjectID string
	Number    int64
	Created   bool
}

// Kind implements [Payload].
func (MessageStart) Kind() frametype.Type       { return frametype.MessageStart }
func (MessageDelta) Kind() frametype.Type       { return frametype.MessageDelta }
func (MessageToolCall) Kind() frametype.Type    { return frametype.MessageToolCall }
func (MessageToolOutput) Kind() frametype.Type  { return frametype.MessageToolOutput }
func (MessageToolResult) Kind() frametype.Type  { return frametype.MessageToolResult }
func (MessageEnd) Kind() frametype.Type         { return frametype.MessageEnd }
func (MessageRetract) Kind() frametype.Type     { return frametype.MessageRetract }
func (MessageSteer) Kind() frametype.Type       { return frametype.MessageSteer }
func (SubagentRetract) Kind() frametype.Type    { return frametype.SubagentRetract }
func (SubagentStart) Kind() frametype.Type      { return frametype.SubagentStart }
func (SubagentOutput) Kind() frametype.Type     { return frametype.SubagentOutput }
func (SubagentToolCall) Kind() frametype.Type   { return frametype.SubagentToolCall }
func (SubagentToolResult) Kind() frametype.Type { return frametype.SubagentToolResult }
func (SubagentEnd) Kind() frametype.Type        { return frametype.SubagentEnd }
func (RunStarted) Kind() frametype.Type         { return frametype.RunStarted }
func (RunEnded) Kind() frametype.Type           { return frametype.RunEnded }
func (RunCage) Kind() frametype.Type            { return frametype.RunCage }
func (PromptHeld) Kind() frametype.Type         { return frametype.PromptHeld }
func (CompactionFlagged) Kind() frametype.Type  { return frametype.CompactionFlagged }
func (CompactionUndone) Kind() frametype.Type   { return frametype.CompactionUndone }
func (SessionState) Kind() frametype.Type       { return frametype.SessionStateChanged }
func (ApprovalRequested) Kind() frametype.Type  { return frametype.ApprovalRequested }
func (ApprovalResolved) Kind() frametype.Type   { return frametype.ApprovalResolved }
func (p IssueChanged) Kind() frametype.Type {
	if p.Created {
		return frametype.IssueCreated
	}
	return frametype.IssueUpdated
}
func (p Told) Kind() frametype.Type { return p.Event.FrameType() }

// Render returns the frame of p. Its payload is appended to dst.
func Render(r Renderer, dst []byte, p Payload) (Frame, error) {
	payload, err := r.Append(dst, p)
	if err != nil {
		return Frame{}, err
	}
	kind := p.Kind()
	return Frame{Channel: kind.Channel, Type: kind.Name, Payload: payload}, nil
}

// RenderDurable returns the durable frame of p. Its id must be the same from every publisher. N is set when the
// change is applied.
func RenderDurable(r Renderer, id string, p Payload) (Durable, error) {
	f, err := Render(r, nil, p)
	return Durable{Frame: f, ID: id}, err
}

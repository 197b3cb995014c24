package frames

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/llm"
)

// Payload is the content of a frame. Each type here is the payload of the one type of frame that Kind names; their
// fields are those of kaged.api.v1.
type Payload interface {
	// Kind returns the type of the frame, which says where it goes.
	Kind() frametype.Type
}

// Renderer writes payloads as clients read them.
type Renderer interface {
	// Append appends p as JSON to dst, at most Limit bytes if its texts have at most MaxText: other long values are
	// shortened, and the input and the output of a tool say so. The stored message has them whole.
	Append(dst []byte, p Payload) ([]byte, error)
}

// Limit is the largest payload in bytes, MaxFrame the largest frame, and MaxText the longest text, as it is in
// JSON, of a frame with text that is split rather than shortened.
const (
	Limit    = 256 << 10
	MaxFrame = Limit + 128
	MaxText  = Limit - 4<<10
)

// MessageStart says that a model answers.
type MessageStart struct {
	MessageID, RunID, Role, Provider, Model string
	// Rehearsal says that a script plays the model.
	Rehearsal bool
	StartedAt int64
}

// MessageDelta is a piece of a model's output, at most MaxText of it.
type MessageDelta struct {
	MessageID, Delta string
	Thinking         bool
}

// MessageToolCall says that a tool is about to run.
type MessageToolCall struct {
	MessageID string
	Call      llm.ToolCall
}

// MessageToolOutput is a piece of a running tool's output, at most MaxText of it.
type MessageToolOutput struct{ MessageID, ToolCallID, Stream, Text string }

// MessageToolResult is a tool's result.
type MessageToolResult struct {
	MessageID string
	Result    llm.ToolResult
	// Input is the parameters as JSON text.
	Input      string
	DurationMS int64
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

// MessageRetract says that the deltas of a message's step are void: the answer broke off and is asked for once more.
type MessageRetract struct {
	MessageID string
	Step      int
	Reason    string
}

// MessageSteer is the state of an operator's message for a run at work. RunID may be "", AfterStep 0 unless it is
// delivered.
type MessageSteer struct {
	MessageID, RunID, State, Content string
	AfterStep                        int
	At                               int64
}

// SubagentRetract is the same for an agent below the root.
type SubagentRetract struct {
	InvocationID string
	Step         int
	Reason       string
}

// RunStarted says that a message is being worked on.
type RunStarted struct{ RunID, MessageID string }

// RunEnded holds the outcome and the use of a run. Error is nil if it did not fail, CostUSD where no price is
// known.
type RunEnded struct {
	RunID, Outcome      string
	Error               *fault.Error
	Steps               int
	TokensIn, TokensOut int64
	CostUSD             *float64
}

// SubagentStart says that an agent calls another. ParentID is "" for the root agent.
type SubagentStart struct {
	InvocationID, ParentID, RunID, ToolCallID, Name, AgentPath, CageStatus string
	StartedAt                                                              int64
}

// SubagentOutput is output of an agent below the root, at most MaxText of it. Part is text,
// thinking, or tool for the output of a tool.
type SubagentOutput struct{ InvocationID, Stream, Part, Text, ToolCallID string }

// SubagentToolCall says that a tool of an agent below the root is about to run.
type SubagentToolCall struct {
	InvocationID string
	Call         llm.ToolCall
}

// SubagentToolResult is a result of a tool of an agent below the root.
type SubagentToolResult struct {
	InvocationID string
	Result       llm.ToolResult
	DurationMS   int64
}

// SubagentEnd is the end of an invocation, with its usage. Error is nil if it did not fail, CostUSD where a price
// is not known.
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

// RunCage says in which cage an agent of a run is, or the reason of its end. InvocationID is "" for the root agent,
// here and below.
type RunCage struct {
	RunID, InvocationID, AgentPath, Status, Tier string
	// BestEffort are the parts of the policy that are enforced by watching.
	BestEffort []string
	// Policy is the policy in one line, Ended why the cage has ended before the run.
	Policy, Ended string
	// Notes are an operator's hints about a new cage, each a sentence.
	Notes []string
	// Found are the findings in its writable folders, known at its end.
	Found []contract.Finding
}

// Told is an event of a run that is shown as it is.
type Told struct {
	SessionID, RunID, InvocationID string
	Event                          contract.Told
}

// CompactionFlagged is the operator's judgement of a compaction. Flag may be nil, Notes is their length.
type CompactionFlagged struct {
	SessionID, CompactionID string
	Flag                    *string
	Notes                   int
}

// CompactionUndone says that a compaction counts no more.
type CompactionUndone struct{ SessionID, CompactionID, AgentPath string }

// PromptHeld says that a run goes on with the accepted text of a prompt that agents can write and have changed, or of
// instructions of the project that are new, changed or gone. Accepted is "" for a run without them, Found for a missing
// file.
type PromptHeld struct{ RunID, Path, Accepted, Found string }

// SessionState is the session's state from now on.
type SessionState struct{ State, BlockedReason string }

// ApprovalRequested says that a tool call waits for an operator.
type ApprovalRequested struct {
	ApprovalID, RunID, InvocationID, MessageID, ToolCallID string
	Subject                                                contract.Subject
	RequestedAt, ExpiresAt                                 int64
}

// ApprovalResolved says that a tool call waits no longer. ResolvedBy and Comment may be "".
type ApprovalResolved struct {
	ApprovalID, RunID, InvocationID, ToolCallID, State, ResolvedBy, Comment string
	ResolvedAt                                                              int64
	// StandingID is the standing approval that the answer made, or that gave it; it may be "".
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

// Render returns the frame of p. dst is room that may be used for its payload.
func Render(r Renderer, dst []byte, p Payload) (Frame, error) {
	payload, err := r.Append(dst, p)
	if err != nil {
		return Frame{}, err
	}
	kind := p.Kind()
	return Frame{Channel: kind.Channel, Type: kind.Name, Payload: payload}, nil
}

// RenderDurable returns the durable frame of p under a name that is the same from every publisher. Its place in the
// store is given when the change it belongs to is applied.
func RenderDurable(r Renderer, id string, p Payload) (Durable, error) {
	f, err := Render(r, nil, p)
	return Durable{Frame: f, ID: id}, err
}

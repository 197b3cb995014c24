package frames

import (
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// Payload is what a frame says. Each type here is the payload of the one type of frame that Kind names; their fields are
// those of kaged.gateway.v1.
type Payload interface {
	// Kind returns where the frame goes and its type.
	Kind() (Channel, string)
}

// Renderer writes payloads as clients read them.
type Renderer interface {
	// Append appends p as JSON to dst, at most Limit bytes where its texts have at most MaxText: what else is too long is
	// shortened, and the input and the output of a tool say so. The stored message has them whole.
	Append(dst []byte, p Payload) ([]byte, error)
}

// Limit is the largest payload in bytes, MaxFrame the largest frame, and MaxText the longest text, as it is in JSON, of a
// frame whose text is split rather than shortened.
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

// MessageDelta is a piece of what a model writes, at most MaxText of it.
type MessageDelta struct {
	MessageID, Delta string
	Thinking         bool
}

// MessageToolCall says that a tool is about to run.
type MessageToolCall struct {
	MessageID string
	Call      llm.ToolCall
}

// MessageToolOutput is what a running tool wrote, at most MaxText of it.
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
	Usage        *transcript.Usage
	Stats        *transcript.Stats
	ErrorMessage string
}

// RunStarted says that a message is being worked on.
type RunStarted struct{ RunID, MessageID string }

// RunRetry says that a model call failed and will be made again.
type RunRetry struct {
	RunID           string
	Error           *fault.Error
	Attempt         int
	DelayMS         int64
	Provider, Model string
}

// RunEnded says how a run ended and what it used. Error is nil if it did not fail, CostUSD where no price is known.
type RunEnded struct {
	RunID, Outcome      string
	Error               *fault.Error
	Steps               int
	TokensIn, TokensOut int64
	CostUSD             *float64
}

// RunCage says in which cage a run's agent is, or why that has ended.
type RunCage struct {
	RunID, AgentPath, Status, Tier string
	// BestEffort says what of the policy is held by watching.
	BestEffort []string
	// Policy is the policy in one line, Ended why the cage has ended before the run.
	Policy, Ended string
	// Notes are what an operator is told of a cage that was made, each a sentence.
	Notes []string
	// Found is what was made in its writable folders, known at its end.
	Found []CageFinding
}

// CageFinding is something that was made in a cage's writable folders and that may make tools outside run code.
type CageFinding struct {
	// Kind is a word for what it is, Path where, absolute and "" for none, Text a sentence about it.
	Kind, Path, Text string
}

// NetworkAttempted says that something in a cage tried to reach the network.
type NetworkAttempted struct {
	RunID, AgentPath string
	At               int64
	Target           string
	Allowed          bool
	Rule             string
	Count            int64
}

// PromptHeld says that a run goes on with the accepted text of a prompt that agents can write, and whose file is another.
type PromptHeld struct{ RunID, Path, Accepted, Found string }

// SessionState says what the session is doing from now on.
type SessionState struct{ State, BlockedReason string }

// Subject is what an operator is asked to allow: one tool call, as it would act if it were made.
type Subject struct {
	// Tool is the canonical name, AgentPath the tree path of the caller.
	Tool      string `json:"tool"`
	AgentPath string `json:"agent_path"`
	// Reasons say why it needs approval, one sentence each.
	Reasons []string `json:"reasons"`
	// Command and Cwd are the exact command and its folder, "" for none.
	Command string `json:"command,omitempty"`
	Cwd     string `json:"cwd,omitempty"`
	// Paths are the files it changes, Preview is the change as a unified diff.
	Paths   []string `json:"paths,omitempty"`
	Preview string   `json:"preview,omitempty"`
}

// ApprovalRequested says that a tool call waits for an operator.
type ApprovalRequested struct {
	ApprovalID, RunID, MessageID, ToolCallID string
	Subject                                  Subject
	RequestedAt, ExpiresAt                   int64
}

// ApprovalResolved says that a tool call waits no longer. ResolvedBy and Comment are "" for none.
type ApprovalResolved struct {
	ApprovalID, RunID, ToolCallID, State, ResolvedBy, Comment string
	ResolvedAt                                                int64
}

// Kind implements [Payload].
func (MessageStart) Kind() (Channel, string)      { return Output, "message.start" }
func (MessageDelta) Kind() (Channel, string)      { return Output, "message.delta" }
func (MessageToolCall) Kind() (Channel, string)   { return Output, "message.tool_call" }
func (MessageToolOutput) Kind() (Channel, string) { return Output, "message.tool_output" }
func (MessageToolResult) Kind() (Channel, string) { return Output, "message.tool_result" }
func (MessageEnd) Kind() (Channel, string)        { return Output, "message.end" }
func (RunStarted) Kind() (Channel, string)        { return Events, "run.started" }
func (RunRetry) Kind() (Channel, string)          { return Events, "run.retry" }
func (RunEnded) Kind() (Channel, string)          { return Events, "run.ended" }
func (RunCage) Kind() (Channel, string)           { return Events, "run.cage" }
func (NetworkAttempted) Kind() (Channel, string)  { return Events, "net.attempt" }
func (PromptHeld) Kind() (Channel, string)        { return Events, "prompt.held" }
func (SessionState) Kind() (Channel, string)      { return Events, "session.state" }
func (ApprovalRequested) Kind() (Channel, string) { return Events, "approval.requested" }
func (ApprovalResolved) Kind() (Channel, string)  { return Events, "approval.resolved" }

// Render returns the frame of p. dst is room that may be used for its payload.
func Render(r Renderer, dst []byte, p Payload) (Frame, error) {
	payload, err := r.Append(dst, p)
	if err != nil {
		return Frame{}, err
	}
	c, kind := p.Kind()
	return Frame{Channel: c, Type: kind, Payload: payload}, nil
}

// RenderDurable returns the durable frame of p under a name that is the same whoever publishes it. Its place in the store
// is given when the change it belongs to is applied.
func RenderDurable(r Renderer, id string, p Payload) (Durable, error) {
	f, err := Render(r, nil, p)
	return Durable{Frame: f, ID: id}, err
}

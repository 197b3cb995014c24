// Package llm is the interface to models: one request, one stream of events, one way to count tokens, for every
// provider. Drivers translate to a provider's wire format and back; routing, retries, records and the agent loop are
// built on it and are independent of the provider.
package llm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"slices"
	"unsafe"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system"
)

// Message is one message of a conversation. A message of RoleTool holds only tool results; a message of RoleAssistant
// only text, thinking and tool calls. A message of RoleSystem inside the conversation is kaged's own note (a summary);
// providers without that role get it as a user message.
//
// The blocks of a message are never changed in place: a changed message has other blocks. See [Message.Same].
type Message struct {
	Role   Role
	Blocks []Block
}

// Same reports whether two messages share their blocks, and are therefore equal. It takes constant time, unlike a
// comparison of the texts, which reads memory all over the heap: 0.1 ms for 2,000 messages.
func (m Message) Same(o Message) bool {
	return m.Role == o.Role && len(m.Blocks) == len(o.Blocks) && unsafe.SliceData(m.Blocks) == unsafe.SliceData(o.Blocks)
}

// Common returns how many messages two conversations have in common at the beginning, by [Message.Same]. Conversations
// are only appended to: their elements are never replaced in place, as the blocks of a message are not. So lists that
// begin in the same memory are not compared.
func Common(a, b []Message) int {
	n := min(len(a), len(b))
	if unsafe.SliceData(a) == unsafe.SliceData(b) {
		return n
	}
	for i := range n {
		if !a[i].Same(b[i]) {
			return i
		}
	}
	return n
}

// Equal reports whether two messages have the same author and content.
func Equal(a, b Message) bool {
	return a.Role == b.Role && slices.EqualFunc(a.Blocks, b.Blocks, equalBlocks)
}

// Block is a piece of a message: exactly one of its fields is set.
type Block struct {
	Text     *Text
	Thinking *Thinking
	Call     *ToolCall
	Result   *ToolResult
}

func equalBlocks(a, b Block) bool {
	return same(a.Text, b.Text) && same(a.Call, b.Call) && same(a.Result, b.Result) &&
		equalThinking(a.Thinking, b.Thinking)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func equalThinking(a, b *Thinking) bool {
	return a == b || a != nil && b != nil && a.Text == b.Text && a.Driver == b.Driver && bytes.Equal(a.Opaque, b.Opaque)
}

// Size returns the bytes of the block's texts: what it holds of an answer, a call's input, or a result's content.
func (b Block) Size() int {
	switch {
	case b.Text != nil:
		return len(b.Text.Text)
	case b.Thinking != nil:
		return len(b.Thinking.Text) + len(b.Thinking.Opaque)
	case b.Call != nil:
		return len(b.Call.Input)
	case b.Result != nil:
		return len(b.Result.Content)
	}
	return 0
}

// Text is readable text.
type Text struct{ Text string }

// Thinking is a model's reasoning. Opaque is the provider's own data. It must be returned unchanged to the same driver
// on the next turn, and to no other driver.
type Thinking struct {
	Text   string
	Opaque []byte
	Driver string
}

// ToolCall is a model's request to use a tool. Name is the dotted name; drivers encode it for the wire. Input is JSON
// text. A driver always produces a JSON object ({} if empty), or the raw text if the model wrote invalid JSON.
type ToolCall struct {
	ID    string
	Name  string
	Input string
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	CallID  string
	Name    string
	Content string
	IsError bool
	// DurationMS is the duration of the call in milliseconds, rounded up; 0 if it is unknown or did not run. Models do not
	// see it.
	DurationMS int64
}

// Tool is the description of a tool for a model. Schema is a JSON Schema of type object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is one model call.
type Request struct {
	// Model is the provider's id of the model.
	Model string
	// System is the system prompt, in blocks.
	System []string
	// Messages is the conversation, oldest first. It ends with a user or tool message. Its elements are never replaced in
	// place, see [Common].
	Messages []Message
	// Tools are the offered tools.
	Tools []Tool
	// Note is kaged's own text for this call only, or empty. It follows the conversation without being part of it. The
	// next request may lack it, so a driver asks its provider to cache the part before it.
	Note string
	// MaxOutputTokens limits the answer; 0 leaves the limit to the provider (Anthropic requires a number and gets the
	// model's own limit).
	MaxOutputTokens int
	// CacheKey groups the requests of one conversation for providers that cache by it. It is a hash, not kaged's id.
	CacheKey string
	// Agent is the tree path of the calling agent. Only the rehearsal driver uses it; it is not sent to providers.
	Agent string `json:"-"`
	// Memory is what the driver keeps of the conversation until its next request; nil disables that.
	Memory *Memory `json:"-"`
	// Superseded is the number of the model's turns that compactions removed from Messages. Only the rehearsal driver uses
	// it.
	Superseded int `json:"-"`
	// Hold is called once when the request is ready to be sent, unless it is nil. A driver sends nothing before it
	// returns, and fails with its error.
	Hold func(context.Context, Body) error `json:"-"`
}

// Body describes the encoded request. It is zero for a driver without a wire format.
type Body struct {
	// SHA256 is the hash of the bytes on the wire.
	SHA256 [sha256.Size]byte
	// Size is their number.
	Size int64
}

// Conversation returns the messages followed by the note.
func (r *Request) Conversation() []Message {
	if r.Note == "" {
		return r.Messages
	}
	return append(slices.Clip(r.Messages), Message{Role: RoleSystem, Blocks: []Block{{Text: &Text{Text: r.Note}}}})
}

// StopReason is the reason why a model stopped.
type StopReason string

// The reasons.
const (
	StopEnd     StopReason = "stop"
	StopLength  StopReason = "length"
	StopToolUse StopReason = "toolUse"
	StopError   StopReason = "error"
	StopAborted StopReason = "aborted"
)

// Usage counts tokens, each in one field only: Input excludes tokens read from or written to a cache; Output includes
// Reasoning.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// The limits of token counts. A provider's report is limited to MaxReported per field and call. No sum exceeds
// MaxCount, the largest integer that every JSON client reads exactly.
const (
	MaxReported = 1_000_000_000
	MaxCount    = 1<<53 - 1
)

// Bounded returns u with each field between 0 and limit.
func (u Usage) Bounded(limit int64) Usage {
	bound := func(n int64) int64 { return min(max(n, 0), limit) }
	return Usage{bound(u.Input), bound(u.Output), bound(u.Reasoning), bound(u.CacheRead), bound(u.CacheWrite)}
}

// Add returns the sum, each field at most [MaxCount]. A negative count adds zero.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		AddCounts(u.Input, v.Input), AddCounts(u.Output, v.Output), AddCounts(u.Reasoning, v.Reasoning),
		AddCounts(u.CacheRead, v.CacheRead), AddCounts(u.CacheWrite, v.CacheWrite),
	}
}

// TotalInput returns all input tokens, cached ones included, at most [MaxCount].
func (u Usage) TotalInput() int64 { return AddCounts(u.Input, u.CacheRead, u.CacheWrite) }

// AddCounts returns the sum of token counts, at most [MaxCount]. A negative count adds zero.
func AddCounts(counts ...int64) int64 {
	var sum int64
	for _, n := range counts {
		sum = min(sum+min(max(n, 0), MaxCount), MaxCount)
	}
	return sum
}

// Event is one event of a stream: exactly one of its fields is set. With an error only Received is set.
type Event struct {
	// Accepted is the first chunk of a successful answer: from here on no other provider may be tried.
	Accepted *Accepted
	// TextDelta is a piece of text, never empty, always whole UTF-8 characters.
	TextDelta string
	// ThinkingDelta is a piece of readable reasoning.
	ThinkingDelta string
	// Done is the end of a successful answer and the last event.
	Done *Done
	// Received is set together with the error that ends a call: the size in bytes of the answer so far, tool calls
	// included.
	Received int
}

// Accepted reports that the provider answers.
type Accepted struct {
	// Usage is the provider's count so far, zero if the provider counts only at the end.
	Usage Usage
}

// Done is a complete answer.
type Done struct {
	// Blocks is everything the model wrote, in order.
	Blocks []Block
	// Stop is the reason for the end: StopEnd, StopLength, or StopToolUse if Blocks holds a call.
	Stop StopReason
	// Usage counts the answer's tokens.
	Usage Usage
}

// Driver speaks one provider's wire format.
type Driver interface {
	// Stream makes one model call and yields its events. It yields at most one error, last: a *fault.Error with
	// provider_unreachable, provider_auth_failed, provider_rate_limited (with details.retry_after_ms if the provider sent
	// it), provider_bad_response, provider_rejected, context_overflow, or the context's error. details.status is the HTTP
	// status, if any. Stream does not retry. Breaking out of the loop, or the end of ctx, closes the provider's connection
	// before Stream's iterator returns.
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// Keeper is a driver that accepts only some thinking back.
type Keeper interface {
	// Keeps reports whether thinking may be sent to a model. Other thinking is left out of a request.
	Keeps(model string, t *Thinking) bool
}

// Target is a destination of a model call.
type Target struct {
	Provider, Model, Driver string
	APIKey, BaseURL         string
	Headers                 map[string]string
	// Script is the script of the rehearsal driver.
	Script []byte
	// Facts are the operator's facts, which override the catalogue. Zero values are unset.
	Facts Facts
}

// Facts are limits and prices of a model.
type Facts struct {
	ContextWindow, MaxOutput int
	// Price is nil for the catalogue's prices.
	Price *Price
}

// Price is in US dollars per million tokens.
type Price struct{ Input, Output, CacheRead, CacheWrite float64 }

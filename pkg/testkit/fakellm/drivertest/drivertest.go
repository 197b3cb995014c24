// Package drivertest is the test suite for drivers of wire formats: it checks the contract of llm.Driver with package
// fakellm.
package drivertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
)

// New makes the driver to test.
type New func(llm.Target, wire.Options) llm.Driver

// Result is the complete outcome of a call.
type Result struct {
	// Events are the events in order.
	Events []llm.Event
	// Text and Thinking are the deltas joined.
	Text, Thinking string
	// Accepted is true if the answer was accepted.
	Accepted bool
	// Done is the last event, or nil.
	Done *llm.Done
	// Err is the error of the call.
	Err error
}

// Call makes a call and checks the order of its events: accepted first, done or an error last.
func Call(t testing.TB, ctx context.Context, d llm.Driver, req llm.Request) Result {
	t.Helper()
	var r Result
	var text, thinking strings.Builder
	for ev, err := range d.Stream(ctx, req) {
		if r.Err != nil || r.Done != nil {
			t.Fatalf("an event after the last: %+v, %v", ev, err)
		}
		if err != nil {
			r.Err = err
			continue
		}
		r.Events = append(r.Events, ev)
		if ev.Accepted == nil && !r.Accepted {
			t.Fatalf("an event before the answer was accepted: %+v", ev)
		}
		r.Accepted = true
		r.Done = ev.Done
		text.WriteString(ev.TextDelta)
		thinking.WriteString(ev.ThinkingDelta)
	}
	r.Text, r.Thinking = text.String(), thinking.String()
	if r.Err == nil && r.Done == nil {
		t.Fatal("the stream ended without an event that says so")
	}
	return r
}

// Ask is a request with one question and one tool.
func Ask(question string) llm.Request {
	return llm.Request{
		Model:    "fake-model",
		System:   []string{"You are a tester.", "Be brief."},
		Messages: []llm.Message{User(question)},
		Tools:    []llm.Tool{Tool("file.read"), Tool("shell.bash")},
		CacheKey: "hash",
	}
}

// Tool is a tool with a path as parameter.
func Tool(name string) llm.Tool {
	schema := `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`
	return llm.Tool{Name: name, Description: "Does " + name + ".", Schema: []byte(schema)}
}

// User is a message of the user.
func User(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}}
}

// Results answers the calls of a turn, in order.
func Results(blocks []llm.Block, contents ...string) llm.Message {
	m := llm.Message{Role: llm.RoleTool}
	for _, b := range blocks {
		if b.Call != nil && len(contents) > 0 {
			m.Blocks = append(m.Blocks, llm.Block{
				Result: &llm.ToolResult{CallID: b.Call.ID, Name: b.Call.Name, Content: contents[0]},
			})
			contents = contents[1:]
		}
	}
	return m
}

// Fault returns the error of a call, which must have the given code.
func Fault(t testing.TB, err error, code fault.Code) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("the error is %v, want %v", err, code)
	}
	if f.Details["provider"] != "fake" {
		t.Errorf("details.provider is %v", f.Details["provider"])
	}
	if strings.Contains(f.Msg, "test-key-123456") {
		t.Errorf("the message holds the key: %s", f.Msg)
	}
	return f
}

// Suite are the parameters of a driver's tests.
type Suite struct {
	// Driver is the driver's name.
	Driver string
	// New creates the driver.
	New New
}

// google reports whether the driver is for Google's format, which lacks some features of the others.
func (s Suite) google() bool { return s.Driver == string(fakellm.Google) }

// start returns a fake provider and a driver for it, with connections of its own.
func (s Suite) start(t *testing.T, opts wire.Options) (*fakellm.Server, llm.Driver) {
	t.Helper()
	srv := fakellm.Start(t)
	opts.Client = Client(t)
	return srv, s.New(srv.Target(s.Driver), opts)
}

// Client returns a client; its connections end with the test.
func Client(t testing.TB) *http.Client {
	c := wire.NewClient(wire.DefaultConnect)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Run runs the suite, without an agent (H-ESC-01).
func (s Suite) Run(t *testing.T) {
	t.Run("Text", s.text)
	t.Run("Thinking", s.thinking)
	t.Run("SeveralTools", s.severalTools)
	t.Run("StopReasons", s.stopReasons)
	t.Run("Usage", s.usage)
	if !s.google() { // fakellm does not cache Google's prompts
		t.Run("Cached", s.cached)
	}
	t.Run("ToolInput", s.toolInput)
	t.Run("ToolNames", s.toolNames)
	t.Run("ToolIDs", s.toolIDs)
	t.Run("Conversation", s.conversation)
	t.Run("MaxTokens", s.maxTokens)
	t.Run("Deltas", s.deltas)
	t.Run("Refused", s.refused)
	t.Run("RetryAfter", s.retryAfter)
	t.Run("Overflow", s.overflow)
	t.Run("Unreachable", s.unreachable)
	t.Run("Redirect", s.redirect)
	t.Run("Secrets", s.secrets)
	t.Run("Cut", s.cut)
	t.Run("Garbage", s.garbage)
	t.Run("NotAStream", s.notAStream)
	t.Run("ErrorEvent", s.errorEvent)
	t.Run("Silence", s.silence)
	t.Run("Endless", s.endless)
	t.Run("Compressed", s.compressed)
	t.Run("TooMuch", s.tooMuch)
	t.Run("Hold", s.hold)
	t.Run("Cancel", s.cancel)
	t.Run("Break", s.breakOff)
	t.Run("Reuse", s.reuse)
	t.Run("HTTP2", s.http2)
	t.Run("Target", s.target)
	t.Run("Environment", s.environment)
}

// soon is the maximum wait of a test for an immediate event.
const soon = 30 * time.Second

package watch

import (
	"encoding/json"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/redact"
)

// The most bytes of a conversation on a span: of one text, and of the newest messages of a request together. Each
// step repeats the request.
const (
	maxText     = 4 << 10
	maxMessages = 12 << 10
)

// message and part are a message in the form of the conventions.
type (
	message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	part struct {
		Type      string `json:"type"`
		Content   string `json:"content,omitempty"`
		ID        string `json:"id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
		Response  string `json:"response,omitempty"`
	}
	definition struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
)

// masked returns the beginning of a text with its secrets masked.
func masked(s string) string { return clip.Bytes(redact.Mask(clip.Bytes(s, 2*maxText)), maxText) }

// conversation returns the system prompt and the newest messages of a request.
func conversation(req *llm.Request) (system []part, messages []message) {
	system = make([]part, len(req.System))
	for i, s := range req.System {
		system[i] = part{Type: "text", Content: masked(s)}
	}
	size := 0
	for _, m := range slices.Backward(req.Messages) {
		one := message{Role: string(m.Role), Parts: parts(m.Blocks)}
		for _, p := range one.Parts {
			size += len(p.Content) + len(p.Arguments) + len(p.Response)
		}
		if size > maxMessages && len(messages) > 0 {
			break
		}
		messages = append(messages, one)
	}
	slices.Reverse(messages)
	return system, messages
}

// asked returns a request as span attributes.
func asked(req *llm.Request) []attribute.KeyValue {
	system, messages := conversation(req)
	tools := make([]definition, len(req.Tools))
	for i, t := range req.Tools {
		tools[i] = definition{"function", t.Name}
	}
	return []attribute.KeyValue{
		semconv.GenAISystemInstructionsKey.String(text(system)), semconv.GenAIInputMessagesKey.String(text(messages)),
		semconv.GenAIToolDefinitionsKey.String(text(tools)),
	}
}

// answered returns an answer as a span attribute.
func answered(done *llm.Done) attribute.KeyValue {
	answer := message{Role: string(llm.RoleAssistant), Parts: parts(done.Blocks)}
	return semconv.GenAIOutputMessagesKey.String(text([]message{answer}))
}

func parts(blocks []llm.Block) []part {
	out := make([]part, 0, len(blocks))
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			out = append(out, part{Type: "text", Content: masked(b.Text.Text)})
		case b.Thinking != nil:
			out = append(out, part{Type: "reasoning", Content: masked(b.Thinking.Text)})
		case b.Call != nil:
			out = append(out, part{Type: "tool_call", ID: b.Call.ID, Name: b.Call.Name, Arguments: masked(b.Call.Input)})
		case b.Result != nil:
			out = append(out, part{Type: "tool_call_response", ID: b.Result.CallID, Response: masked(b.Result.Content)})
		}
	}
	return out
}

// costDetails returns a cost in Langfuse's form.
func costDetails(c *llm.Cost) string { return text(map[string]float64{"total": c.Total}) }

// text returns v as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // values are only strings and numbers
	}
	return string(b)
}

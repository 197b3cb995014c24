package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kaged.dev/pkg/llm"
)

// Format is a provider's wire format, named as the drivers are.
type Format string

// The formats.
const (
	Anthropic  Format = "anthropic"
	OpenAI     Format = "openai"
	OpenAIChat Format = "openai-chat"
	Google     Format = "google"
)

// Request is a received request, raw and parsed.
type Request struct {
	// N is the number of the request at its server, from 1.
	N int
	// Format is the wire format of the path it was sent to.
	Format Format
	// Header and Body are the received header and body.
	Header http.Header
	Body   []byte
	// Model, MaxTokens (0 if unset) and Tools are those of the request. Names of tools are dotted.
	Model     string
	MaxTokens int
	Tools     []llm.Tool
	// System is the system prompt, its blocks joined by empty lines.
	System string
	// Messages is the conversation in neutral form. Opaque of thinking is the signature, the redacted data or the
	// encrypted content. Results are of RoleTool. OpenAI's format does not mark errors: a result that begins with {"error"
	// counts as one.
	Messages []llm.Message
	// Arrived is the time when the request was read. Finished is the time when the last byte of the answer was written or
	// the client had left, zero before that.
	Arrived, Finished time.Time
	// Usage is the reported usage of input.
	Usage llm.Usage
	// WireTools are the received names of the tools.
	WireTools []string
}

// Conversation returns the first user text, which identifies the conversation.
func (r *Request) Conversation() string {
	for _, m := range r.Messages {
		if m.Role == llm.RoleUser {
			if s := messageText(m); s != "" {
				return s
			}
		}
	}
	return ""
}

// LastText returns the text of the last message that is the user's.
func (r *Request) LastText() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == llm.RoleUser {
			if s := messageText(r.Messages[i]); s != "" {
				return s
			}
		}
	}
	return ""
}

// Results returns the tool results in the request after the last turn of the model.
func (r *Request) Results() []llm.ToolResult {
	var results []llm.ToolResult
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role != llm.RoleAssistant; i-- {
		var of []llm.ToolResult
		for _, b := range r.Messages[i].Blocks {
			if b.Result != nil {
				of = append(of, *b.Result)
			}
		}
		results = append(of, results...)
	}
	return results
}

// Turns returns the number of the model's turns in the conversation.
func (r *Request) Turns() int {
	n := 0
	for i, m := range r.Messages {
		if m.Role == llm.RoleAssistant && (i == 0 || r.Messages[i-1].Role != llm.RoleAssistant) {
			n++
		}
	}
	return n
}

// messageText returns the text of a message's blocks, joined by line feeds.
func messageText(m llm.Message) string {
	var texts []string
	for _, b := range m.Blocks {
		if b.Text != nil {
			texts = append(texts, b.Text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// wireName encodes a dotted name for the wire, and dottedName decodes it.
func wireName(name string) string   { return strings.ReplaceAll(name, ".", "__") }
func dottedName(name string) string { return strings.ReplaceAll(name, "__", ".") }

// parseRequest parses a request body.
func parseRequest(format Format, body []byte) (*Request, error) {
	r := &Request{Format: format, Body: body}
	var err error
	switch format {
	case Anthropic:
		err = r.parseAnthropic()
	case OpenAI:
		err = r.parseResponses()
	case OpenAIChat:
		err = r.parseChat()
	case Google:
		err = r.parseGoogle()
	}
	if err != nil {
		return nil, fmt.Errorf("the body does not parse: %w", err)
	}
	return r, nil
}

func (r *Request) addTool(name, description string, schema json.RawMessage) {
	r.WireTools = append(r.WireTools, name)
	r.Tools = append(r.Tools, llm.Tool{Name: dottedName(name), Description: description, Schema: schema})
}

// add appends a block to the conversation, to the last message if it has the same role.
func (r *Request) add(role llm.Role, b llm.Block) {
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == role {
		r.Messages[n-1].Blocks = append(r.Messages[n-1].Blocks, b)
		return
	}
	r.Messages = append(r.Messages, llm.Message{Role: role, Blocks: []llm.Block{b}})
}

func (r *Request) addText(role llm.Role, text string) {
	if text != "" {
		r.add(role, llm.Block{Text: &llm.Text{Text: text}})
	}
}

// content is a string or a list of parts with text.
type content []part

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// UnmarshalJSON reads either form.
func (c *content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*c = content{{Type: "text", Text: s}}
		return nil
	}
	return json.Unmarshal(data, (*[]part)(c))
}

func (c content) text() string {
	texts := make([]string, len(c))
	for i, p := range c {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n\n")
}

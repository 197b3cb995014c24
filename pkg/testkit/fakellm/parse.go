package fakellm

import (
	"encoding/json"
	"strings"

	"kaged.dev/pkg/llm"
)

// anthropicBlock is a content block of the Messages API.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   content         `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (r *Request) parseAnthropic() error {
	var body struct {
		Model     string  `json:"model"`
		MaxTokens int     `json:"max_tokens"`
		System    content `json:"system"`
		Tools     []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Messages []struct {
			Role    llm.Role        `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.MaxTokens, r.System = body.Model, body.MaxTokens, body.System.text()
	for _, t := range body.Tools {
		r.addTool(t.Name, t.Description, t.InputSchema)
	}
	for _, m := range body.Messages {
		var blocks []anthropicBlock
		if len(m.Content) > 0 && m.Content[0] == '"' {
			var text string
			if err := json.Unmarshal(m.Content, &text); err != nil {
				return err
			}
			blocks = []anthropicBlock{{Type: "text", Text: text}}
		} else if err := json.Unmarshal(m.Content, &blocks); err != nil {
			return err
		}
		for _, b := range blocks {
			r.addAnthropic(m.Role, b)
		}
	}
	return nil
}

func (r *Request) addAnthropic(role llm.Role, b anthropicBlock) {
	switch b.Type {
	case "text":
		r.add(role, llm.Block{Text: &llm.Text{Text: b.Text}})
	case "thinking":
		r.add(
			role,
			llm.Block{Thinking: &llm.Thinking{Text: b.Thinking, Opaque: []byte(b.Signature), Driver: string(Anthropic)}},
		)
	case "redacted_thinking":
		r.add(role, llm.Block{Thinking: &llm.Thinking{Opaque: []byte(b.Data), Driver: string(Anthropic)}})
	case "tool_use":
		r.add(role, llm.Block{Call: &llm.ToolCall{ID: b.ID, Name: dottedName(b.Name), Input: string(b.Input)}})
	case "tool_result":
		r.add(llm.RoleTool, llm.Block{Result: &llm.ToolResult{
			CallID: b.ToolUseID, Name: r.callName(b.ToolUseID), Content: b.Content.text(), IsError: b.IsError,
		}})
	}
}

func (r *Request) parseChat() error {
	var body struct {
		Model               string `json:"model"`
		MaxTokens           int    `json:"max_tokens"`
		MaxCompletionTokens int    `json:"max_completion_tokens"`
		Tools               []struct {
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role             llm.Role `json:"role"`
			Content          content  `json:"content"`
			ReasoningContent string   `json:"reasoning_content"`
			ToolCallID       string   `json:"tool_call_id"`
			ToolCalls        []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.MaxTokens = body.Model, max(body.MaxTokens, body.MaxCompletionTokens)
	for _, t := range body.Tools {
		r.addTool(t.Function.Name, t.Function.Description, t.Function.Parameters)
	}
	for i, m := range body.Messages {
		switch m.Role {
		case llm.RoleTool:
			r.addResult(m.ToolCallID, m.Content.text())
			continue
		case llm.RoleSystem, "developer":
			if i == 0 {
				r.System = m.Content.text()
				continue
			}
			m.Role = llm.RoleSystem
		}
		if m.ReasoningContent != "" {
			r.add(m.Role, llm.Block{Thinking: &llm.Thinking{Text: m.ReasoningContent, Driver: string(OpenAIChat)}})
		}
		r.addText(m.Role, m.Content.text())
		for _, c := range m.ToolCalls {
			r.add(
				m.Role,
				llm.Block{Call: &llm.ToolCall{ID: c.ID, Name: dottedName(c.Function.Name), Input: c.Function.Arguments}},
			)
		}
	}
	return nil
}

// responsesItem is an input item of the Responses API.
type responsesItem struct {
	Type             string   `json:"type"`
	Role             llm.Role `json:"role"`
	Content          content  `json:"content"`
	CallID           string   `json:"call_id"`
	Name             string   `json:"name"`
	Arguments        string   `json:"arguments"`
	Output           content  `json:"output"`
	Summary          content  `json:"summary"`
	EncryptedContent string   `json:"encrypted_content"`
}

func (r *Request) parseResponses() error {
	var body struct {
		Model           string `json:"model"`
		Instructions    string `json:"instructions"`
		MaxOutputTokens int    `json:"max_output_tokens"`
		Tools           []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"tools"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	r.Model, r.MaxTokens, r.System = body.Model, body.MaxOutputTokens, body.Instructions
	for _, t := range body.Tools {
		r.addTool(t.Name, t.Description, t.Parameters)
	}
	var items []responsesItem
	if len(body.Input) > 0 && body.Input[0] == '"' {
		items = []responsesItem{{Role: llm.RoleUser}}
		if err := json.Unmarshal(body.Input, &items[0].Content); err != nil {
			return err
		}
	} else if err := json.Unmarshal(body.Input, &items); err != nil {
		return err
	}
	for _, it := range items {
		r.addItem(it)
	}
	return nil
}

func (r *Request) addItem(it responsesItem) {
	switch it.Type {
	case "", "message":
		if it.Role == "developer" {
			it.Role = llm.RoleSystem
		}
		r.addText(it.Role, it.Content.text())
	case "reasoning":
		r.add(llm.RoleAssistant, llm.Block{Thinking: &llm.Thinking{
			Text: it.Summary.text(), Opaque: []byte(it.EncryptedContent), Driver: string(OpenAI),
		}})
	case "function_call":
		r.add(
			llm.RoleAssistant,
			llm.Block{Call: &llm.ToolCall{ID: it.CallID, Name: dottedName(it.Name), Input: it.Arguments}},
		)
	case "function_call_output":
		r.addResult(it.CallID, it.Output.text())
	}
}

// addResult adds a result in the form of OpenAI's formats.
func (r *Request) addResult(callID, text string) {
	r.add(llm.RoleTool, llm.Block{Result: &llm.ToolResult{
		CallID: callID, Name: r.callName(callID), Content: text, IsError: strings.HasPrefix(text, `{"error"`),
	}})
}

// callName finds the name of the call of a result.
func (r *Request) callName(id string) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		for _, b := range r.Messages[i].Blocks {
			if b.Call != nil && b.Call.ID == id {
				return b.Call.Name
			}
		}
	}
	return ""
}

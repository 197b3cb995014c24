package fakellm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"kaged.dev/pkg/llm"
)

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// illegal returns the provider's rule that a request breaks, in the provider's words if they are known, and "" for a
// valid request. It has the rules that concern conversations with tools.
func illegal(r *Request) string {
	if problem := illegalTools(r); problem != "" {
		return problem
	}
	if len(r.Messages) == 0 {
		return "messages: at least one message is required"
	}
	if r.Format == Anthropic {
		if problem := illegalAnthropic(r); problem != "" {
			return problem
		}
	}
	if r.Format == Google {
		if problem := illegalGoogle(r); problem != "" {
			return problem
		}
	}
	return illegalCalls(r)
}

func illegalTools(r *Request) string {
	var body struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(r.Body, &body) == nil && body.Tools != nil && len(body.Tools) == 0 {
		return "tools: [] is too short"
	}
	seen := map[string]bool{}
	for i, name := range r.WireTools {
		var root struct {
			Type any `json:"type"`
		}
		switch {
		case !toolName.MatchString(name):
			return fmt.Sprintf("tools.%d.name: String should match pattern '%s'", i, toolName)
		case seen[name]:
			return "tools: Tool names must be unique."
		case json.Unmarshal(r.Tools[i].Schema, &root) != nil || root.Type != "object":
			return fmt.Sprintf("tools.%d: the schema's type must be object", i)
		}
		seen[name] = true
	}
	return ""
}

// illegalAnthropic checks the rules that only the Messages API has.
func illegalAnthropic(r *Request) string {
	if r.MaxTokens < 1 {
		return "max_tokens: Field required"
	}
	if problem := tooManyMarks(r.Body); problem != "" {
		return problem
	}
	if role := r.Messages[0].Role; role != llm.RoleUser {
		return fmt.Sprintf("messages: first message must use the \"user\" role, not %q", role)
	}
	for i, m := range r.Messages {
		for _, b := range m.Blocks {
			switch {
			case b.Text != nil && strings.TrimSpace(b.Text.Text) == "":
				return fmt.Sprintf("messages.%d: text content blocks must contain non-whitespace text", i)
			case b.Call != nil && !strings.HasPrefix(b.Call.Input, "{"):
				return fmt.Sprintf("messages.%d: tool_use.input: Input should be a valid dictionary", i)
			case b.Thinking != nil && len(b.Thinking.Opaque) == 0:
				return fmt.Sprintf("messages.%d: Invalid `signature` in `thinking` block", i)
			case b.Result != nil && b.Result.IsError && b.Result.Content == "":
				return fmt.Sprintf("messages.%d: tool_result: content cannot be empty if `is_error` is true", i)
			}
		}
	}
	return ""
}

// illegalCalls checks that each call is answered right after its turn, once, and that there are no other results.
func illegalCalls(r *Request) string {
	used := map[string]bool{}
	open := map[string]bool{}
	for i, m := range r.Messages {
		if m.Role != llm.RoleTool && len(open) > 0 {
			return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after", i-1)
		}
		for _, b := range m.Blocks {
			switch {
			case b.Call != nil && !callID.MatchString(b.Call.ID):
				return fmt.Sprintf("messages.%d: tool_use.id %q: String should match pattern '%s'", i, b.Call.ID, callID)
			case b.Call != nil && used[b.Call.ID]:
				return fmt.Sprintf("messages.%d: `tool_use` ids must be unique", i)
			case b.Call != nil:
				used[b.Call.ID], open[b.Call.ID] = true, true
			case b.Result != nil && !open[b.Result.CallID]:
				return fmt.Sprintf("messages.%d: unexpected `tool_use_id` %q found in `tool_result` blocks", i, b.Result.CallID)
			case b.Result != nil:
				delete(open, b.Result.CallID)
			}
		}
	}
	if len(open) > 0 {
		return "No tool output found for function call"
	}
	return ""
}

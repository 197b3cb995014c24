package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// sdkParams returns the request for the SDK to encode as a whole. Bodies of the driver are compared with it.
func (d *Driver) sdkParams(req llm.Request, names *wire.Names) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:     sdk.Model(req.Model),
		MaxTokens: d.maxTokens(req),
		System:    system(req.System),
		Messages:  sdkMessages(llm.Normalize(req.Messages), names, d.origin(req.Model)),
	}
	if len(req.Tools) > 0 {
		p.Tools = tools(req.Tools, names)
	}
	marked := 0
	for i := len(p.Messages) - 1; i >= 0 && marked < 2; i-- {
		if p.Messages[i].Role == sdk.MessageParamRoleUser {
			marked++
			blocks := p.Messages[i].Content
			if cache := blocks[len(blocks)-1].GetCacheControl(); cache != nil {
				*cache = sdk.NewCacheControlEphemeralParam()
			}
		}
	}
	return withNote(p, req.Note)
}

// withNote adds a note behind the last turn, which is not the model's.
func withNote(p sdk.MessageNewParams, note string) sdk.MessageNewParams {
	n := len(p.Messages)
	switch {
	case strings.TrimSpace(note) == "":
	case n > 0 && p.Messages[n-1].Role == sdk.MessageParamRoleUser:
		last := &p.Messages[n-1]
		last.Content = append(last.Content, sdk.NewTextBlock(note))
	default:
		p.Messages = append(p.Messages, sdk.NewUserMessage(sdk.NewTextBlock(note)))
	}
	return p
}

// sdkMessages encodes a normalized conversation. The API has two alternating roles, and the user is first.
func sdkMessages(conversation []llm.Message, names *wire.Names, origin string) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, m := range conversation {
		role := sdk.MessageParamRoleUser
		if m.Role == llm.RoleAssistant {
			role = sdk.MessageParamRoleAssistant
		}
		content := sdkBlocks(m.Blocks, names, origin)
		switch n := len(out); {
		case len(content) == 0:
		case n > 0 && out[n-1].Role == role:
			out[n-1].Content = append(out[n-1].Content, content...)
		case n == 0 && role == sdk.MessageParamRoleAssistant:
			out = append(out, sdk.NewUserMessage(sdk.NewTextBlock("(The conversation begins with your answer.)")),
				sdk.NewAssistantMessage(content...))
		default:
			out = append(out, sdk.MessageParam{Role: role, Content: content})
		}
	}
	return out
}

func sdkBlocks(in []llm.Block, names *wire.Names, origin string) []sdk.ContentBlockParamUnion {
	out := make([]sdk.ContentBlockParamUnion, 0, len(in))
	for _, b := range in {
		switch {
		case b.Text != nil:
			if strings.TrimSpace(b.Text.Text) != "" {
				out = append(out, sdk.NewTextBlock(b.Text.Text))
			}
		case b.Thinking != nil:
			if block, ok := sdkThinking(b.Thinking, origin); ok {
				out = append(out, block)
			}
		case b.Call != nil:
			out = append(
				out,
				sdk.NewToolUseBlock(wire.CallID(b.Call.ID), wire.ObjectInput(b.Call.Input), names.Encode(b.Call.Name)),
			)
		case b.Result != nil:
			out = append(out, sdk.ContentBlockParamUnion{OfToolResult: sdkResult(b.Result)})
		}
	}
	return out
}

func sdkResult(r *llm.ToolResult) *sdk.ToolResultBlockParam {
	p := &sdk.ToolResultBlockParam{ToolUseID: wire.CallID(r.CallID)}
	content := r.Content
	if r.IsError {
		p.IsError = param.NewOpt(true)
		if strings.TrimSpace(content) == "" {
			content = emptyError
		}
	}
	if strings.TrimSpace(content) != "" {
		p.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: content}}}
	}
	return p
}

// sdkThinking returns the block as received; false if it has another origin or no signature, and would be refused.
func sdkThinking(t *llm.Thinking, origin string) (sdk.ContentBlockParamUnion, bool) {
	var o opaque
	if t.Driver != Name || json.Unmarshal(t.Opaque, &o) != nil || o.Origin != origin {
		return sdk.ContentBlockParamUnion{}, false
	}
	if o.Redacted != "" {
		return sdk.NewRedactedThinkingBlock(o.Redacted), true
	}
	return sdk.NewThinkingBlock(o.Signature, t.Text), o.Signature != ""
}

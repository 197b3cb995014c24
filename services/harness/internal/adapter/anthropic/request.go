package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
	"kaged.dev/pkg/llm/wire"
)

// unknownMaxTokens bounds the answers of models that the catalogue lacks: the limit of the smallest models in use.
// Newer Claude models than the catalogue's allow at least newMaxTokens.
const (
	unknownMaxTokens = 8192
	newMaxTokens     = 32000
)

// emptyError stands for an error result without text, which the API refuses.
const emptyError = "The tool failed without saying why."

// params is the request for the API. Prompts are cached up to the last tool, the last system block, and the last block
// of the last two turns that are not the model's: the second of these is where the call before this one ended, so that
// its cache is found also where a turn has more blocks than the API looks back. The note follows behind these.
func (d *Driver) params(req llm.Request, names *wire.Names) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:     sdk.Model(req.Model),
		MaxTokens: d.maxTokens(req),
		System:    system(req.System),
		Tools:     tools(req.Tools, names),
		Messages:  messages(llm.Normalize(req.Messages), names, d.origin(req.Model)),
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

// withNote puts a note behind the last turn, which is not the model's.
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

func (d *Driver) maxTokens(req llm.Request) int64 {
	if req.MaxOutputTokens > 0 {
		return int64(req.MaxOutputTokens)
	}
	if meta, ok := modelmeta.Lookup(d.target.Provider, Name, req.Model); ok && meta.MaxOutput > 0 {
		return int64(meta.MaxOutput)
	}
	if strings.HasPrefix(req.Model, "claude-") {
		return newMaxTokens
	}
	return unknownMaxTokens
}

func system(texts []string) []sdk.TextBlockParam {
	var blocks []sdk.TextBlockParam
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			blocks = append(blocks, sdk.TextBlockParam{Text: text})
		}
	}
	if n := len(blocks); n > 0 {
		blocks[n-1].CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	return blocks
}

func tools(offered []llm.Tool, names *wire.Names) []sdk.ToolUnionParam {
	if len(offered) == 0 {
		// An empty list is refused.
		return nil
	}
	out := make([]sdk.ToolUnionParam, len(offered))
	for i, t := range offered {
		tool := &sdk.ToolParam{
			Name:        names.Encode(t.Name),
			InputSchema: param.Override[sdk.ToolInputSchemaParam](wire.Schema(t.Schema)),
		}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		if i == len(offered)-1 {
			tool.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
		out[i] = sdk.ToolUnionParam{OfTool: tool}
	}
	return out
}

// messages encodes a normalised conversation. The API knows two roles that take turns, the user first.
func messages(conversation []llm.Message, names *wire.Names, origin string) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, m := range conversation {
		role := sdk.MessageParamRoleUser
		if m.Role == llm.RoleAssistant {
			role = sdk.MessageParamRoleAssistant
		}
		content := blocks(m.Blocks, names, origin)
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

func blocks(in []llm.Block, names *wire.Names, origin string) []sdk.ContentBlockParamUnion {
	out := make([]sdk.ContentBlockParamUnion, 0, len(in))
	for _, b := range in {
		switch {
		case b.Text != nil:
			if strings.TrimSpace(b.Text.Text) != "" {
				out = append(out, sdk.NewTextBlock(b.Text.Text))
			}
		case b.Thinking != nil:
			if block, ok := thinking(b.Thinking, origin); ok {
				out = append(out, block)
			}
		case b.Call != nil:
			out = append(
				out, sdk.NewToolUseBlock(wire.CallID(b.Call.ID), wire.ObjectInput(b.Call.Input), names.Encode(b.Call.Name)),
			)
		case b.Result != nil:
			out = append(out, sdk.ContentBlockParamUnion{OfToolResult: result(b.Result)})
		}
	}
	return out
}

func result(r *llm.ToolResult) *sdk.ToolResultBlockParam {
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

// opaque is the driver's data for a thinking block besides its text.
type opaque struct {
	// Origin is the provider and the model of the data.
	Origin string `json:"origin"`
	// Signature signs the text.
	Signature string `json:"signature,omitempty"`
	// Redacted is a block without readable text.
	Redacted string `json:"redacted,omitempty"`
}

// thinking returns the block as it came; false if it came from elsewhere, or unsigned, and would be refused.
func thinking(t *llm.Thinking, origin string) (sdk.ContentBlockParamUnion, bool) {
	var o opaque
	if t.Driver != Name || json.Unmarshal(t.Opaque, &o) != nil || o.Origin != origin {
		return sdk.ContentBlockParamUnion{}, false
	}
	if o.Redacted != "" {
		return sdk.NewRedactedThinkingBlock(o.Redacted), true
	}
	return sdk.NewThinkingBlock(o.Signature, t.Text), o.Signature != ""
}

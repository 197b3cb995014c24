package openai

import (
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// chatParams is the request for the Chat Completions API. Compatible servers get only the fields known to all: some
// refuse fields that OpenAI added later.
func (d *Driver) chatParams(req llm.Request, names *wire.Names) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:         shared.ChatModel(req.Model),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
		Tools:         chatTools(req.Tools, names),
	}
	if s := systemPrompt(req.System); s != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(s))
	}
	official := d.official()
	conversation := llm.Normalize(req.Conversation())
	p.Messages = append(p.Messages, chatMessages(conversation, names, d.origin(req.Model), official)...)
	if n := int64(req.MaxOutputTokens); n > 0 {
		if official {
			p.MaxCompletionTokens = param.NewOpt(n)
		} else {
			p.MaxTokens = param.NewOpt(n)
		}
	}
	if req.CacheKey != "" && official {
		p.PromptCacheKey = param.NewOpt(req.CacheKey)
	}
	return p
}

func chatTools(offered []llm.Tool, names *wire.Names) []sdk.ChatCompletionToolUnionParam {
	if len(offered) == 0 {
		// An empty list is refused.
		return nil
	}
	out := make([]sdk.ChatCompletionToolUnionParam, len(offered))
	for i, t := range offered {
		f := shared.FunctionDefinitionParam{Name: names.Encode(t.Name)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		f.SetExtraFields(map[string]any{"parameters": wire.Schema(t.Schema)})
		out[i] = sdk.ChatCompletionFunctionTool(f)
	}
	return out
}

// chatMessages encodes a normalised conversation. Only OpenAI is known to take a system message after the first: the
// templates of many models refuse it, or refuse two user messages in a row.
func chatMessages(
	conversation []llm.Message, names *wire.Names, origin string, official bool,
) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	var user []string
	flush := func() {
		if len(user) > 0 {
			out = append(out, sdk.UserMessage(strings.Join(user, "\n\n")))
			user = nil
		}
	}
	asked := lastQuestion(conversation)
	for i, m := range conversation {
		if m.Role == llm.RoleUser || m.Role == llm.RoleSystem && !official {
			user = append(user, texts(m.Blocks))
			continue
		}
		flush()
		switch m.Role {
		case llm.RoleSystem:
			out = append(out, sdk.SystemMessage(texts(m.Blocks)))
		case llm.RoleTool:
			for _, b := range m.Blocks {
				out = append(out, sdk.ToolMessage(b.Result.Content, wire.CallID(b.Result.CallID)))
			}
		default:
			if msg, ok := assistantMessage(m.Blocks, names, origin, i > asked); ok {
				out = append(out, msg)
			}
		}
	}
	flush()
	return out
}

// lastQuestion returns the index of the last user message, -1 if absent.
func lastQuestion(conversation []llm.Message) int {
	for i := len(conversation) - 1; i >= 0; i-- {
		if conversation[i].Role == llm.RoleUser {
			return i
		}
	}
	return -1
}

// assistantMessage encodes a turn of the model; false if it has no usable block. Thinking goes back in the field it
// came in, and only while the question it is about is being worked on: servers that want it want it then.
func assistantMessage(
	blocks []llm.Block, names *wire.Names, origin string, current bool,
) (sdk.ChatCompletionMessageParamUnion, bool) {
	msg := &sdk.ChatCompletionAssistantMessageParam{}
	thinking := map[string]any{}
	for _, b := range blocks {
		switch {
		case b.Call != nil:
			msg.ToolCalls = append(msg.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: wire.CallID(b.Call.ID),
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: names.Encode(b.Call.Name), Arguments: string(wire.ObjectInput(b.Call.Input)),
					},
				},
			})
		case b.Thinking != nil && current:
			if o, ok := opaqueOf(b.Thinking, ChatName, origin); ok && o.Field != "" {
				before, _ := thinking[o.Field].(string)
				thinking[o.Field] = before + b.Thinking.Text
			}
		}
	}
	if s := texts(blocks); s != "" {
		msg.Content.OfString = param.NewOpt(s)
	}
	if len(thinking) > 0 {
		msg.SetExtraFields(thinking)
	}
	said := msg.Content.OfString.Valid() || len(msg.ToolCalls) > 0
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: msg}, said
}

package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// sdkInputItems encodes a normalized conversation.
func sdkInputItems(conversation []llm.Message, names *wire.Names, origin string) responses.ResponseInputParam {
	var items responses.ResponseInputParam
	for _, m := range conversation {
		switch m.Role {
		case llm.RoleAssistant:
			items = append(items, sdkAssistantItems(m.Blocks, names, origin)...)
		case llm.RoleTool:
			for _, b := range m.Blocks {
				item := responses.ResponseInputItemParamOfFunctionCallOutput(b.Result.Content)
				item.OfFunctionCallOutput.CallID = param.NewOpt(wire.CallID(b.Result.CallID))
				items = append(items, item)
			}
		case llm.RoleSystem:
			items = append(
				items, responses.ResponseInputItemParamOfMessage(texts(m.Blocks), responses.EasyInputMessageRoleSystem),
			)
		default:
			items = append(items, responses.ResponseInputItemParamOfMessage(texts(m.Blocks), responses.EasyInputMessageRoleUser))
		}
	}
	return items
}

// sdkAssistantItems encodes a turn of the model. Only reasoning items carry the provider's ids: with ids on other
// items the API requires every item that belonged together.
func sdkAssistantItems(blocks []llm.Block, names *wire.Names, origin string) responses.ResponseInputParam {
	var items responses.ResponseInputParam
	said := 0
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			items = append(
				items, responses.ResponseInputItemParamOfMessage(b.Text.Text, responses.EasyInputMessageRoleAssistant),
			)
			said = len(items)
		case b.Call != nil:
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(
				string(wire.ObjectInput(b.Call.Input)), wire.CallID(b.Call.ID), names.Encode(b.Call.Name)))
			said = len(items)
		case b.Thinking != nil:
			if item, ok := sdkReasoningItem(b.Thinking, origin); ok {
				items = append(items, item)
			}
		}
	}
	// The API refuses reasoning without output.
	return items[:said]
}

// sdkReasoningItem returns the item as received.
func sdkReasoningItem(t *llm.Thinking, origin string) (responses.ResponseInputItemUnionParam, bool) {
	o, ok := opaqueOf(t, Name, origin)
	if !ok || o.Encrypted == "" {
		return responses.ResponseInputItemUnionParam{}, false
	}
	summary := o.Summary
	if len(summary) == 0 {
		summary = json.RawMessage("[]")
	}
	raw, err := json.Marshal(struct {
		Type      string          `json:"type"`
		ID        string          `json:"id,omitempty"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}{"reasoning", o.ID, summary, o.Encrypted})
	if err != nil {
		return responses.ResponseInputItemUnionParam{}, false
	}
	item := param.Override[responses.ResponseReasoningItemParam](json.RawMessage(raw))
	return responses.ResponseInputItemUnionParam{OfReasoning: &item}, true
}

// sdkChatMessages encodes a normalized conversation. Only OpenAI is known to accept a system message after the first
// message: the templates of many models refuse it, or refuse two user messages in a row.
func sdkChatMessages(
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
			if msg, ok := sdkAssistantMessage(m.Blocks, names, origin, i > asked); ok {
				out = append(out, msg)
			}
		}
	}
	flush()
	return out
}

// sdkAssistantMessage encodes a turn of the model; false if it has no usable block. Thinking is sent in the field it
// was received in, and only while its question is the current one: servers that need thinking need it then.
func sdkAssistantMessage(
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

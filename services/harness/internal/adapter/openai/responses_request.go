package openai

import (
	"encoding/json"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
	"kaged.dev/pkg/llm/wire"
)

// leastOutputTokens is the smallest bound on an answer that the Responses API takes.
const leastOutputTokens = 16

// responseParams is the request for the Responses API. OpenAI stores no response: reasoning comes back encrypted
// and is sent again with the conversation.
func (d *Driver) responseParams(req llm.Request, names *wire.Names) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: shared.ResponsesModel(req.Model),
		Store: param.NewOpt(false),
		Input: responses.ResponseNewParamsInputUnion{
			OfInputItemList: inputItems(llm.Normalize(req.Conversation()), names, d.origin(req.Model)),
		},
		Tools: functionTools(req.Tools, names),
	}
	if s := systemPrompt(req.System); s != "" {
		p.Instructions = param.NewOpt(s)
	}
	if req.MaxOutputTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(max(req.MaxOutputTokens, leastOutputTokens)))
	}
	if req.CacheKey != "" {
		p.PromptCacheKey = param.NewOpt(req.CacheKey)
	}
	// Models without reasoning refuse to be asked for it; a model that is not known is newer than the catalogue.
	if meta, known := modelmeta.Lookup(d.target.Provider, Name, req.Model); !known || meta.Reasoning {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	return p
}

func functionTools(offered []llm.Tool, names *wire.Names) []responses.ToolUnionParam {
	if len(offered) == 0 {
		// An empty list is refused.
		return nil
	}
	out := make([]responses.ToolUnionParam, len(offered))
	for i, t := range offered {
		// Strict tools would have to list every parameter as required. It is the default and must be switched off.
		f := &responses.FunctionToolParam{Name: names.Encode(t.Name), Strict: param.NewOpt(false)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		f.SetExtraFields(map[string]any{"parameters": wire.Schema(t.Schema)})
		out[i] = responses.ToolUnionParam{OfFunction: f}
	}
	return out
}

// inputItems encodes a normalised conversation.
func inputItems(conversation []llm.Message, names *wire.Names, origin string) responses.ResponseInputParam {
	var items responses.ResponseInputParam
	for _, m := range conversation {
		switch m.Role {
		case llm.RoleAssistant:
			items = append(items, assistantItems(m.Blocks, names, origin)...)
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

// assistantItems encodes a turn of the model. Items carry no ids of the provider's but reasoning's own: with ids it
// would insist on having every item that belonged together.
func assistantItems(blocks []llm.Block, names *wire.Names, origin string) responses.ResponseInputParam {
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
			if item, ok := reasoningItem(b.Thinking, origin); ok {
				items = append(items, item)
			}
		}
	}
	// Reasoning without output is refused.
	return items[:said]
}

// opaque is the drivers' data for thinking besides its text.
type opaque struct {
	// Origin is the provider and the model of the data.
	Origin string `json:"origin"`
	// ID, Encrypted and Summary are a reasoning item of the Responses API.
	ID        string          `json:"id,omitempty"`
	Encrypted string          `json:"encrypted,omitempty"`
	Summary   json.RawMessage `json:"summary,omitempty"`
	// Field is the field of a Chat Completions message that the text came in.
	Field string `json:"field,omitempty"`
}

func (o opaque) encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return b
}

// opaqueOf returns a driver's data for thinking; false if it came from elsewhere and would be refused.
func opaqueOf(t *llm.Thinking, driver, origin string) (opaque, bool) {
	var o opaque
	if t.Driver != driver || json.Unmarshal(t.Opaque, &o) != nil || o.Origin != origin {
		return opaque{}, false
	}
	return o, true
}

// reasoningItem returns the item as it came.
func reasoningItem(t *llm.Thinking, origin string) (responses.ResponseInputItemUnionParam, bool) {
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

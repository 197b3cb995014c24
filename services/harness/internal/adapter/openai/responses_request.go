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

// leastOutputTokens is the smallest limit of an answer that the Responses API accepts.
const leastOutputTokens = 16

// responseBody returns the body of a request of the Responses API.
func (d *Driver) responseBody(req llm.Request) (*wire.Body, error) {
	origin := d.origin(req.Model)
	w := wire.NewWriter(req, req.Conversation(), Name+" "+origin, encodeItem(origin))
	c := &items{array: array{Writer: w, opening: `{"input":[`}, origin: origin}
	c.write()
	return c.body(d.responseParams(req), Name, req.Tools, func() any { return functionTools(req.Tools, w.Names) })
}

// responseParams returns the parameters of a request without its conversation and tools. OpenAI stores no response:
// reasoning comes back encrypted and is sent again with the conversation.
func (d *Driver) responseParams(req llm.Request) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: shared.ResponsesModel(req.Model),
		Store: param.NewOpt(false),
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
	// Models without reasoning refuse a request for it. An unknown model is taken as newer than the catalogue.
	if meta, known := modelmeta.Lookup(d.target.Provider, Name, req.Model); !known || meta.Reasoning {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	p.SetExtraFields(map[string]any{"stream": true})
	return p
}

func functionTools(offered []llm.Tool, names *wire.Names) []responses.ToolUnionParam {
	out := make([]responses.ToolUnionParam, len(offered))
	for i, t := range offered {
		// Strict mode requires every parameter. It is the default and has to be switched off.
		f := &responses.FunctionToolParam{Name: names.Encode(t.Name), Strict: param.NewOpt(false)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		f.SetExtraFields(map[string]any{"parameters": wire.Schema(t.Schema)})
		out[i] = responses.ToolUnionParam{OfFunction: f}
	}
	return out
}

// opaque is the drivers' data of a thinking block besides its text.
type opaque struct {
	// Origin is the provider and the model of the data.
	Origin string `json:"origin"`
	// ID, Encrypted and Summary form a reasoning item of the Responses API.
	ID        string          `json:"id,omitempty"`
	Encrypted string          `json:"encrypted,omitempty"`
	Summary   json.RawMessage `json:"summary,omitempty"`
	// Field is the name of the Chat Completions field that held the text.
	Field string `json:"field,omitempty"`
}

func (o opaque) encode() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return b
}

// opaqueOf returns a driver's data of a thinking block; false if it has another origin and would be refused.
func opaqueOf(t *llm.Thinking, driver, origin string) (opaque, bool) {
	if t.Driver != driver {
		return opaque{}, false
	}
	return readOpaque(t.Opaque, origin)
}

func readOpaque(data []byte, origin string) (opaque, bool) {
	var o opaque
	if json.Unmarshal(data, &o) != nil || o.Origin != origin {
		return opaque{}, false
	}
	return o, true
}

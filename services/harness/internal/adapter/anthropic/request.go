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

// unknownMaxTokens is the most output tokens of models that the catalogue lacks: the limit of the smallest models in
// use. Claude models newer than the catalogue allow at least newMaxTokens.
const (
	unknownMaxTokens = 8192
	newMaxTokens     = 32000
)

// body returns the encoded request. Prompts are cached up to the last tool, the last system block, and the last block
// of each of the last two turns that are not the model's. The earlier of these is the end of the previous call. Its
// cache is therefore found even if a turn has more blocks than the API looks back. The note follows behind these.
//
// The SDK encodes the parameters and, once, each list of tools. Its encoder takes 80 µs for each message of each call,
// so it does not encode the conversation.
func (d *Driver) body(req llm.Request) (*wire.Body, error) {
	origin := d.origin(req.Model)
	c := &conversation{Writer: wire.NewWriter(req, req.Messages, Name+" "+origin, encoder(origin))}
	p := sdk.MessageNewParams{
		Model:     sdk.Model(req.Model),
		MaxTokens: d.maxTokens(req),
		System:    system(req.System),
	}
	p.SetExtraFields(map[string]any{"stream": true})
	end, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	end, err = wire.WithTools(end, Name, req.Tools, c.Names, func() any { return tools(req.Tools, c.Names) })
	if err != nil {
		return nil, err
	}
	closing := c.write(req.Note, origin)
	// The members of the SDK's object follow the list.
	return c.Body(append([]byte(closing+","), end[1:]...)), nil
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

// opaque is the driver's data of a thinking block besides its text.
type opaque struct {
	// Origin is the provider and the model of the data.
	Origin string `json:"origin"`
	// Signature signs the text.
	Signature string `json:"signature,omitempty"`
	// Redacted is the data of a block without readable text.
	Redacted string `json:"redacted,omitempty"`
}

// thinking returns the data of a block; false if it has another origin or no signature, and would be refused.
func thinking(t *llm.Thinking, origin string) (opaque, bool) {
	if t.Driver != Name {
		return opaque{}, false
	}
	return readOpaque(t.Opaque, origin)
}

func readOpaque(data []byte, origin string) (opaque, bool) {
	var o opaque
	if json.Unmarshal(data, &o) != nil || o.Origin != origin {
		return opaque{}, false
	}
	return o, o.Redacted != "" || o.Signature != ""
}

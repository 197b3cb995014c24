package openai

import (
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// chatBody returns the body of a request of the Chat Completions API.
func (d *Driver) chatBody(req llm.Request) (*wire.Body, error) {
	w := wire.NewWriter(req, req.Conversation(), ChatName+" "+d.origin(req.Model), encodeChat)
	c := &chat{array: array{Writer: w, opening: `{"messages":[`}, origin: d.origin(req.Model), official: d.official()}
	c.write(systemPrompt(req.System))
	return c.body(d.chatParams(req), ChatName, req.Tools, func() any { return chatTools(req.Tools, w.Names) })
}

// chatParams returns the parameters of a request without its conversation and tools. Compatible servers get only the
// oldest fields: some refuse fields that OpenAI added later.
func (d *Driver) chatParams(req llm.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:         shared.ChatModel(req.Model),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	official := d.official()
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
	p.SetExtraFields(map[string]any{"stream": true})
	return p
}

func chatTools(offered []llm.Tool, names *wire.Names) []sdk.ChatCompletionToolUnionParam {
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

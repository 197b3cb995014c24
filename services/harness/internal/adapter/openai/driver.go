// Package openai speaks OpenAI's two APIs: Responses ([New]), to OpenAI and the few servers that offer it, and Chat
// Completions ([NewChat]), to compatible servers such as Ollama, vLLM, LM Studio and OpenRouter.
//
// The SDK encodes the parameters of a request and makes the connection. responses_items.go and chat_messages.go
// encode the conversation, [wire] runs the call, and responses_decode.go and chat_decode.go read the events. The
// SDK's types for events cost 20 µs for each delta, and 13 KB (Responses) or 7 KB (Chat). The whole way from the
// stream's bytes to the delta costs a tenth of that here: 1.6 and 2.0 µs and 0.6 KB, of which 0.1 µs find the event
// (BenchmarkDecode). So the decoders read only the needed members of the JSON. This also tolerates the deviations of
// compatible servers: thinking in fields of their own, calls without ids or indexes, usage that is null or early, and
// streams that end without [DONE].
//
// A call uses only the target's key, headers and base URL, and no value of the environment.
package openai

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// The drivers' names in configurations.
const (
	Name     = "openai"
	ChatName = "openai-chat"
)

const defaultBaseURL = "https://api.openai.com/v1"

// Driver makes calls to one target. It holds no state and is safe for concurrent use.
type Driver struct {
	target llm.Target
	opts   wire.Options
	// path is the API's path, body encodes a request, and decoder returns a decoder for its answer.
	path    string
	body    func(d *Driver, req llm.Request) (*wire.Body, error)
	decoder func(origin string) wire.Decoder
}

// New returns a driver for the Responses API. It touches no network. Each call fails if the target is unusable.
func New(target llm.Target, opts wire.Options) *Driver {
	target.Driver = Name
	return newDriver(target, opts, Driver{
		path: "responses", body: (*Driver).responseBody,
		decoder: func(origin string) wire.Decoder { return newResponseDecoder(origin) },
	})
}

// NewChat returns a driver for the Chat Completions API, with the contract of [New].
func NewChat(target llm.Target, opts wire.Options) *Driver {
	target.Driver = ChatName
	return newDriver(target, opts, Driver{
		path: "chat/completions", body: (*Driver).chatBody,
		decoder: func(origin string) wire.Decoder { return newChatDecoder(origin) },
	})
}

func newDriver(target llm.Target, opts wire.Options, d Driver) *Driver {
	if target.BaseURL == "" {
		target.BaseURL = defaultBaseURL
	}
	d.target, d.opts = target, opts
	return &d
}

// Stream makes one model call; see llm.Driver.
func (d *Driver) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		body, err := d.body(d, req)
		if err != nil {
			yield(llm.Event{}, fault.Wrap(err, fault.Internal, "The request cannot be encoded."))
			return
		}
		call := wire.Call{
			Target:  d.target,
			Options: d.opts,
			Request: req,
			Names:   body.Names(),
			Decoder: d.decoder(d.origin(req.Model)),
			Body:    body,
			Open:    d.open,
		}
		wire.Stream(ctx, call)(yield)
	}
}

// open sends the request; the client adds the body. It asks for the raw response, so that the SDK does not read the
// stream.
func (d *Driver) open(ctx context.Context, client *http.Client) (*http.Response, error) {
	opts := []option.RequestOption{
		option.WithBaseURL(d.target.BaseURL),
		option.WithHTTPClient(client),
		option.WithMaxRetries(0),
		option.WithHeader("User-Agent", wire.UserAgent()),
	}
	if d.target.APIKey != "" {
		opts = append(opts, option.WithAPIKey(d.target.APIKey))
	}
	for k, v := range d.target.Headers {
		opts = append(opts, option.WithHeader(k, v))
	}
	// A client built as a value has only these options. The SDK's constructor would read the environment.
	c := sdk.Client{Options: opts}
	var resp *http.Response
	if err := c.Post(ctx, d.path, nil, &resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// Keeps implements llm.Keeper.
func (d *Driver) Keeps(model string, t *llm.Thinking) bool {
	_, ok := opaqueOf(t, d.target.Driver, d.origin(model))
	return ok
}

// origin identifies the source of opaque thinking: a provider accepts only its own, for the same model.
func (d *Driver) origin(model string) string { return d.target.Provider + ":" + model }

// official reports whether the target is OpenAI's own API or Azure's edition of it, in contrast to a compatible
// server.
func (d *Driver) official() bool {
	u, err := url.Parse(d.target.BaseURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".azure.com")
}

// systemPrompt joins the blocks of a system prompt, because both APIs accept only one text.
func systemPrompt(blocks []string) string {
	var kept []string
	for _, b := range blocks {
		if strings.TrimSpace(b) != "" {
			kept = append(kept, b)
		}
	}
	return strings.Join(kept, "\n\n")
}

// texts joins the text blocks of a message.
func texts(blocks []llm.Block) string {
	var parts []string
	for _, b := range blocks {
		if b.Text != nil {
			parts = append(parts, b.Text.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

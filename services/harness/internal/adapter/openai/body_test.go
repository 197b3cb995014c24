package openai

import (
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
)

// For any conversation, and after any earlier request, the body of both APIs has the meaning of the SDK's encoding of
// the whole request, and its hash is the hash of its bytes.
func FuzzBody(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 24 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(byte(i), data)
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		target := llm.Target{Provider: "p"}
		if which&1 == 0 {
			target.BaseURL = "http://127.0.0.1/v1"
		}
		d, params := NewChat(target, wire.Options{}), (*Driver).sdkChatParams
		if which&2 == 0 {
			d, params = New(target, wire.Options{}), (*Driver).sdkResponseParams
		}
		for i, req := range drivertest.Conversations(data, thoughts(d.target.Driver, d.origin("model"))) {
			names := wire.NewNames(req)
			body, err := d.body(d, req)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(params(d, req, names))
			if err != nil {
				t.Fatal(err)
			}
			drivertest.SameJSON(t, i, body.Bytes(), want)
			about, data := body.About(), body.Bytes()
			if about.SHA256 != sha256.Sum256(data) || about.Size != int64(len(data)) {
				t.Fatalf("request %d: the body is described as %+v", i, about)
			}
		}
	})
}

// sdkResponseParams returns the request for the SDK to encode as a whole.
func (d *Driver) sdkResponseParams(req llm.Request, names *wire.Names) any {
	p := d.responseParams(req)
	if len(req.Tools) > 0 {
		p.Tools = functionTools(req.Tools, names)
	}
	p.Input = responses.ResponseNewParamsInputUnion{
		OfInputItemList: sdkInputItems(llm.Normalize(req.Conversation()), names, d.origin(req.Model)),
	}
	if p.Input.OfInputItemList == nil {
		p.Input.OfInputItemList = responses.ResponseInputParam{}
	}
	return p
}

// sdkChatParams returns the request for the SDK to encode as a whole.
func (d *Driver) sdkChatParams(req llm.Request, names *wire.Names) any {
	p := d.chatParams(req)
	if len(req.Tools) > 0 {
		p.Tools = chatTools(req.Tools, names)
	}
	p.Messages = []sdk.ChatCompletionMessageParamUnion{}
	if s := systemPrompt(req.System); s != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(s))
	}
	conversation := llm.Normalize(req.Conversation())
	p.Messages = append(p.Messages, sdkChatMessages(conversation, names, d.origin(req.Model), d.official())...)
	return p
}

// thoughts returns thinking of an origin in all forms, and thinking of another origin.
func thoughts(driver, origin string) func(string) []*llm.Thinking {
	summary := json.RawMessage(`[{"type":"summary_text","text":"<s>"}]`)
	return func(text string) []*llm.Thinking {
		var all []*llm.Thinking
		for _, o := range []opaque{
			{Origin: origin, ID: "rs_1", Encrypted: "encrypted", Summary: summary},
			{Origin: origin, Encrypted: "encrypted"},
			{Origin: origin, Field: "reasoning_content"},
			{Origin: origin, Field: "reasoning"},
			{Origin: origin},
			{Origin: "elsewhere", Encrypted: "encrypted"},
		} {
			all = append(all, &llm.Thinking{Text: text, Opaque: o.encode(), Driver: driver})
		}
		return append(all, &llm.Thinking{Text: text, Driver: "other"}, &llm.Thinking{Text: text, Driver: driver})
	}
}

package anthropic

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
)

// For any conversation, and after any earlier request, the body has the meaning of the SDK's encoding of the whole
// request, and its hash is the hash of its bytes.
func FuzzBody(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := New(llm.Target{Provider: "p"}, wire.Options{})
		for i, req := range drivertest.Conversations(data, thoughts(d.origin("model"))) {
			body, err := d.body(req)
			if err != nil {
				t.Fatal(err)
			}
			params := d.sdkParams(req, wire.NewNames(req))
			if params.Messages == nil {
				params.Messages = []sdk.MessageParam{}
			}
			params.SetExtraFields(map[string]any{"stream": true})
			want, err := json.Marshal(params)
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

// thoughts returns thinking of an origin in all forms, and thinking of another origin.
func thoughts(origin string) func(string) []*llm.Thinking {
	return func(text string) []*llm.Thinking {
		var all []*llm.Thinking
		for _, o := range []opaque{
			{Origin: origin, Signature: "signed " + text},
			{Origin: origin, Redacted: "redacted"},
			{Origin: origin},
			{Origin: "elsewhere", Signature: "signed"},
		} {
			data, err := json.Marshal(o)
			if err != nil {
				panic(err)
			}
			all = append(all, &llm.Thinking{Text: text, Opaque: data, Driver: Name})
		}
		return append(all, &llm.Thinking{Text: text, Driver: "other"}, &llm.Thinking{Text: text, Driver: Name})
	}
}

// In a long conversation that grows at its end, only the new end is encoded and hashed, and the bytes of earlier
// requests do not change.
func TestTheBeginningIsKept(t *testing.T) {
	t.Parallel()
	d := New(llm.Target{Provider: "p"}, wire.Options{})
	req := drivertest.Ask("a question")
	req.Memory = llm.NewMemories(1 << 20).New()
	var bodies []*wire.Body
	var before [][]byte
	for range 20 {
		turn := []llm.Block{{Call: &llm.ToolCall{ID: wire.NewCallID(), Name: "file.read", Input: `{"path":"a"}`}}}
		req.Messages = append(
			req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn}, drivertest.Results(turn, "<content>"),
		)
		body, err := d.body(req)
		if err != nil {
			t.Fatal(err)
		}
		bodies, before = append(bodies, body), append(before, body.Bytes())
	}
	for i, body := range bodies {
		if !bytes.Equal(body.Bytes(), before[i]) {
			t.Errorf("request %d changed: %s", i, cmp.Diff(string(before[i]), string(body.Bytes())))
		}
	}
	fresh := req
	fresh.Memory = nil
	again, err := d.body(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(again.Bytes()), string(before[len(before)-1])); diff != "" {
		t.Errorf("with a memory, the body differs: %s", diff)
	}
}

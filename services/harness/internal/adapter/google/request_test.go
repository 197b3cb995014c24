package google_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
	"kaged.dev/services/harness/internal/adapter/google"
)

// sent returns the body of the driver's request, as the provider gets it.
func sent(t *testing.T, target llm.Target, req llm.Request) string {
	t.Helper()
	srv := fakellm.New(t.Errorf)
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("ok")}))
	d := google.New(target, wire.Options{Client: drivertest.Handler(srv)})
	if r := drivertest.Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	return string(srv.Requests()[0].Body)
}

// contents returns the contents of a body, one per line.
func contents(t *testing.T, body string) string {
	t.Helper()
	var b struct {
		Contents []json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, c := range b.Contents {
		lines.Write(c)
		lines.WriteByte('\n')
	}
	return lines.String()
}

// A request equals the API's documentation, byte for byte.
func TestRequest(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("is 1 < 2?")
	req.Model, req.MaxOutputTokens = "gemini-2.5-pro", 300
	req.Tools = append(req.Tools[:1], llm.Tool{Name: "a", Description: "Takes nothing."})
	const want = `{"contents":[{"role":"user","parts":[{"text":"is 1 < 2?"}]}],` +
		`"systemInstruction":{"parts":[{"text":"You are a tester."},{"text":"Be brief."}]},` +
		`"tools":[{"functionDeclarations":[` +
		`{"name":"file__read","description":"Does file.read.","parametersJsonSchema":` +
		`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}},` +
		`{"name":"a","description":"Takes nothing.","parametersJsonSchema":{"properties":{},"type":"object"}}]}],` +
		`"generationConfig":{"maxOutputTokens":300,"thinkingConfig":{"includeThoughts":true}}}` + "\n"
	if diff := cmp.Diff(want, sent(t, llm.Target{Provider: "google"}, req)); diff != "" {
		t.Error(diff)
	}
}

// A model without thinking gets no request for it, because it would refuse that.
func TestThinkingIsAskedFor(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]bool{
		"gemini-2.5-pro": true, "gemini-99": true, "gemini-2.0-flash": false, "other": false,
	} {
		req := drivertest.Ask("hi")
		req.Model = model
		if got := strings.Contains(sent(t, llm.Target{Provider: "google"}, req), "includeThoughts"); got != want {
			t.Errorf("%s is asked: %v, want %v", model, got, want)
		}
	}
}

// The path names the model, also in another collection, and the base URL keeps its path and query.
func TestAddress(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"gemini-3-pro-preview": "/p/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse&team=blue",
		"models/gemini-x":      "/p/v1beta/models/gemini-x:streamGenerateContent?alt=sse&team=blue",
		"tunedModels/mine":     "/p/v1beta/tunedModels/mine:streamGenerateContent?alt=sse&team=blue",
		"a?b#c d":              "/p/v1beta/models/a%3Fb%23c%20d:streamGenerateContent?alt=sse&team=blue",
	} {
		srv := fakellm.New(t.Errorf)
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("ok")}))
		var got string
		client := drivertest.Handler(recorder(&got, srv))
		req := drivertest.Ask("hi")
		req.Model = model
		d := google.New(llm.Target{BaseURL: "http://fake/p/?team=blue"}, wire.Options{Client: client})
		if r := drivertest.Call(t, t.Context(), d, req); r.Err != nil || got != want {
			t.Errorf("%s is asked at %s, want %s: %v", model, got, want, r.Err)
		}
	}
}

// Signatures are sent back with their part, byte for byte, and only to their own provider and model.
func TestSignatures(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ same, other string }{
		"thinking_and_call": {
			`{"text":"**Looking**\n\nThe file may help.","thought":true},` +
				`{"thoughtSignature":"EjQKMgEMx+/abc==",` +
				`"functionCall":{"id":"ID","name":"file__read","args":{"path":"go.mod","limit":10}}}`,
			`{"functionCall":{"id":"ID","name":"file__read","args":{"path":"go.mod","limit":10}}}`,
		},
		"parallel_calls": {
			`{"thoughtSignature":"EjQK","functionCall":{"id":"ID","name":"file__read","args":{"path":"a"}}},` +
				`{"functionCall":{"id":"ID","name":"file__read","args":{"path":"b"}}},` +
				`{"functionCall":{"id":"ID","name":"shell__bash","args":{}}}`,
			`{"functionCall":{"id":"ID","name":"file__read","args":{"path":"a"}}},` +
				`{"functionCall":{"id":"ID","name":"file__read","args":{"path":"b"}}},` +
				`{"functionCall":{"id":"ID","name":"shell__bash","args":{}}}`,
		},
		"signed_at_the_end": {`{"text":"Because."},{"text":"","thoughtSignature":"EjQK"}`, `{"text":"Because."}`},
		"signature_alone": {
			`{"text":"Because.","thought":true},{"text":"Yes."},{"text":"","thoughtSignature":"EjQK"}`,
			`{"text":"Yes."}`,
		},
		"signed_text": {
			`{"text":"One "},{"text":"two ","thoughtSignature":"EjQK"},{"text":"three."}`,
			`{"text":"One "},{"text":"two "},{"text":"three."}`,
		},
		"signed_thought": {
			`{"text":"Hm.","thought":true,"thoughtSignature":"EjQK"},{"text":"Again.","thought":true},{"text":"Yes."}`,
			`{"text":"Yes."}`,
		},
	} {
		r := suite.Replay(t, fixture(t, name))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		req := drivertest.Ask("first")
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: r.Done.Blocks},
			drivertest.Results(r.Done.Blocks, "1", "2", "3"), drivertest.User("next"))
		for provider, parts := range map[string]string{"fake": want.same, "other": want.other} {
			body := sent(t, llm.Target{Provider: provider}, req)
			for _, b := range r.Done.Blocks {
				if b.Call != nil {
					body = strings.ReplaceAll(body, b.Call.ID, "ID")
				}
			}
			got := strings.Split(contents(t, body), "\n")[1]
			if diff := cmp.Diff(`{"role":"model","parts":[`+parts+`]}`, got); diff != "" {
				t.Errorf("%s, to %s: %s", name, provider, diff)
			}
		}
	}
}

// Gemini 3 refuses unsigned calls. Calls of another model in the current turn are sent with the value for a missing
// signature. Other calls are unchanged.
func TestCallsOfAnotherModel(t *testing.T) {
	t.Parallel()
	turn := func(ids ...string) []llm.Block {
		var blocks []llm.Block
		for _, id := range ids {
			blocks = append(blocks, llm.Block{Call: &llm.ToolCall{ID: id, Name: "file.read", Input: `{}`}})
		}
		return blocks
	}
	req := drivertest.Ask("first")
	for _, blocks := range [][]llm.Block{turn("a"), nil, turn("b", "c"), turn("d")} {
		if blocks == nil {
			req.Messages = append(req.Messages, drivertest.User("second"))
			continue
		}
		answer := llm.Message{Role: llm.RoleAssistant, Blocks: blocks}
		req.Messages = append(req.Messages, answer, drivertest.Results(blocks, "1", "2"))
	}
	const mark = `"thoughtSignature":"skip_thought_signature_validator","functionCall":{"id":`
	for model, want := range map[string]int{
		"gemini-3-pro-preview": 2, "models/gemini-4": 2, "gemini-pro-latest": 2, "gemini-2.5-pro": 0, "gemma-4": 0,
	} {
		req.Model = model
		body := sent(t, llm.Target{}, req)
		if got := strings.Count(body, mark); got != want {
			t.Errorf("%s: %d calls are marked, want %d\n%s", model, got, want, contents(t, body))
		}
	}
}

// Results are a content of their own right after their calls, by the call's name. The user's text follows them.
// kaged's notes have the role of the user.
func TestRoles(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("first")
	turn := []llm.Block{{Call: &llm.ToolCall{ID: "x", Name: "file.read", Input: "[1]"}}}
	note := llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{{Text: &llm.Text{Text: "a note"}}}}
	result := &llm.ToolResult{CallID: "x", Content: "gone", IsError: true}
	failed := llm.Message{Role: llm.RoleTool, Blocks: []llm.Block{{Result: result}}}
	answer := llm.Message{Role: llm.RoleAssistant, Blocks: turn}
	req.Messages = append(req.Messages, answer, note, failed, drivertest.User("go on"))
	const want = `{"role":"user","parts":[{"text":"first"}]}
{"role":"model","parts":[{"functionCall":{"id":"x","name":"file__read","args":{"invalid_json":"[1]"}}}]}
{"role":"user","parts":[{"functionResponse":{"id":"x","name":"file__read","response":{"error":"gone"}}}]}
{"role":"user","parts":[{"text":"a note"},{"text":"go on"}]}
`
	if diff := cmp.Diff(want, contents(t, sent(t, llm.Target{}, req))); diff != "" {
		t.Error(diff)
	}
}

// A conversation that continues begins with the same bytes; otherwise the cache is missed.
func TestPrefix(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("first")
	before := contents(t, sent(t, llm.Target{}, req))
	turn := []llm.Block{{Call: &llm.ToolCall{ID: "x", Name: "file.read", Input: "{}"}}}
	answer := llm.Message{Role: llm.RoleAssistant, Blocks: turn}
	req.Messages = append(req.Messages, answer, drivertest.Results(turn, "1"))
	after := contents(t, sent(t, llm.Target{}, req))
	if !strings.HasPrefix(after, before) || len(after) == len(before) {
		t.Errorf("%s\n%s", before, after)
	}
}

// A refusal follows Google's details: the requested delay, and an invalid key that Google reports as a bad request.
func TestErrorDetails(t *testing.T) {
	t.Parallel()
	quota := string(bytes.TrimSpace(bytes.TrimPrefix(fixture(t, "error_first"), []byte("data: "))))
	wait := func(delay string) string { return strings.Replace(quota, "34.074824224s", delay, 1) }
	const badKey = `{"error": {"code": 400,"message": "API key not valid.","status": "INVALID_ARGUMENT","details": [` +
		`{"@type": "type.googleapis.com/google.rpc.ErrorInfo","reason": "API_KEY_INVALID"}]}}`
	const denied = `data: {"error": {"message": "No.","status": "PERMISSION_DENIED"}}` + "\n\n"
	for name, c := range map[string]struct {
		action fakellm.Action
		code   fault.Code
		wait   any
	}{
		"quota":              {fakellm.Status(429, quota), fault.ProviderRateLimited, int64(34074)},
		"quota in stream":    {fakellm.Raw("data: " + quota + "\r\n\r\n"), fault.ProviderRateLimited, int64(34074)},
		"header first":       {fakellm.Status(429, quota, "Retry-After", "2"), fault.ProviderRateLimited, int64(2000)},
		"a year":             {fakellm.Status(503, wait("31536000s")), fault.ProviderUnreachable, int64(86_400_000)},
		"no wait":            {fakellm.Status(429, wait("soon")), fault.ProviderRateLimited, nil},
		"bad key":            {fakellm.Status(400, badKey), fault.ProviderAuthFailed, nil},
		"in stream, by name": {fakellm.Raw(denied), fault.ProviderAuthFailed, nil},
	} {
		srv := fakellm.New(t.Errorf)
		srv.Script(fakellm.Steps(fakellm.Step{c.action}))
		d := google.New(srv.Target(google.Name), wire.Options{Client: drivertest.Handler(srv)})
		f := drivertest.Fault(t, drivertest.Call(t, t.Context(), d, drivertest.Ask("hi")).Err, c.code)
		if got := f.Details["retry_after_ms"]; got != c.wait {
			t.Errorf("%s: the wait is %v, want %v", name, got, c.wait)
		}
	}
}

// fixture returns a recorded stream.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// recorder forwards requests and stores the address of the last one.
func recorder(address *string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*address = r.URL.RequestURI()
		next.ServeHTTP(w, r)
	})
}

package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
)

// sent returns the body of the driver's request.
func sent(t *testing.T, s drivertest.Suite, target llm.Target, req llm.Request) map[string]any {
	t.Helper()
	srv := fakellm.New(t.Errorf)
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("ok")}))
	d := s.New(target, wire.Options{Client: drivertest.Handler(srv)})
	if r := drivertest.Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	var body map[string]any
	if err := json.Unmarshal(srv.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// fields returns the named members of an object.
func fields(body map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, n := range names {
		if v, ok := body[n]; ok {
			out[n] = v
		}
	}
	return out
}

const official = "https://api.openai.com/v1"

// OpenAI is asked to store no response, to encrypt reasoning, to cache by conversation, and not to apply strict mode
// to kaged's schemas.
func TestResponsesRequest(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("hi")
	req.MaxOutputTokens = 3
	body := sent(t, responsesSuite, llm.Target{}, req)
	want := map[string]any{
		"store": false, "stream": true, "prompt_cache_key": "hash", "max_output_tokens": 16.0,
		"include": []any{"reasoning.encrypted_content"}, "instructions": "You are a tester.\n\nBe brief.",
		"input": []any{map[string]any{"role": "user", "content": "hi"}},
	}
	if diff := cmp.Diff(
		want, fields(body, "store", "stream", "prompt_cache_key", "max_output_tokens", "include", "instructions", "input"),
	); diff != "" {
		t.Error(diff)
	}
	tool := body["tools"].([]any)[0].(map[string]any)
	if tool["strict"] != false || tool["name"] != "file__read" ||
		tool["parameters"].(map[string]any)["additionalProperties"] != false {
		t.Errorf("tool %v", tool)
	}
	req.Model = "gpt-4.1"
	if body := sent(t, responsesSuite, llm.Target{Provider: "openai"}, req); body["include"] != nil {
		t.Error("a model without reasoning is asked for it, and would refuse")
	}
}

// A tool is sent with its own description, and the root of its schema is an object even without parameters (T-REG-06,
// T-T20-10).
func TestTools(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]drivertest.Suite{"responses": responsesSuite, "chat": chatSuite} {
		req := drivertest.Ask("hi")
		req.Tools = []llm.Tool{
			drivertest.Tool("file.read"),
			{Name: "a", Description: "Takes nothing."},
			{Name: "b", Description: "Takes {}.", Schema: []byte(`{}`)},
			{Name: "c", Description: "Takes \"x\".", Schema: []byte(`{"properties":{"x":{}}}`)},
		}
		tools := sent(t, s, llm.Target{}, req)["tools"].([]any)
		if len(tools) != len(req.Tools) {
			t.Fatalf("%s: %v", name, tools)
		}
		for i := range tools {
			tool := tools[i].(map[string]any)
			if inner, ok := tool["function"].(map[string]any); ok {
				tool = inner
			}
			root, _ := tool["parameters"].(map[string]any)
			if tool["description"] != req.Tools[i].Description || root["type"] != "object" {
				t.Errorf("%s: %v", name, tool)
			}
		}
	}
}

// Compatible servers get only the oldest fields, and OpenAI gets its newer fields.
func TestChatRequest(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("hi")
	req.MaxOutputTokens = 300
	names := []string{"max_tokens", "max_completion_tokens", "prompt_cache_key", "stream", "stream_options", "store"}
	want := map[string]any{"max_tokens": 300.0, "stream": true, "stream_options": map[string]any{"include_usage": true}}
	if diff := cmp.Diff(
		want, fields(sent(t, chatSuite, llm.Target{BaseURL: "http://localhost:11434/v1"}, req), names...),
	); diff != "" {
		t.Error(diff)
	}
	want = map[string]any{
		"max_completion_tokens": 300.0, "prompt_cache_key": "hash", "stream": true,
		"stream_options": map[string]any{"include_usage": true},
	}
	for _, base := range []string{"", official, "https://eu.api.openai.com/v1", "https://me.openai.azure.com/openai/v1"} {
		if diff := cmp.Diff(want, fields(sent(t, chatSuite, llm.Target{BaseURL: base}, req), names...)); diff != "" {
			t.Error(base, diff)
		}
	}
}

// A note in the middle is a system message for OpenAI, and text of the user for the templates of other servers.
func TestNotes(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("first")
	text := func(role llm.Role, s string) llm.Message {
		return llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: s}}}}
	}
	req.Messages = append(req.Messages, text(llm.RoleAssistant, "a"), text(llm.RoleSystem, "note"), drivertest.User("b"))
	msg := func(role, content string) any { return map[string]any{"role": role, "content": content} }
	system := msg("system", "You are a tester.\n\nBe brief.")
	for base, want := range map[string][]any{
		official:              {system, msg("user", "first"), msg("assistant", "a"), msg("system", "note"), msg("user", "b")},
		"http://localhost/v1": {system, msg("user", "first"), msg("assistant", "a"), msg("user", "note\n\nb")},
	} {
		if diff := cmp.Diff(want, sent(t, chatSuite, llm.Target{BaseURL: base}, req)["messages"]); diff != "" {
			t.Error(base, diff)
		}
	}
	want := []any{msg("user", "first"), msg("assistant", "a"), msg("system", "note"), msg("user", "b")}
	if diff := cmp.Diff(want, sent(t, responsesSuite, llm.Target{}, req)["input"]); diff != "" {
		t.Error(diff)
	}
}

// Encrypted reasoning is sent back unchanged, before the output that it led to. It is not sent without such output,
// and not to another model.
func TestReasoningItems(t *testing.T) {
	t.Parallel()
	thought := llm.Block{Thinking: &llm.Thinking{
		Text: "hm", Driver: "openai",
		Opaque: []byte(
			`{"origin":"work:fake-model","id":"rs_1","encrypted":"e+/=","summary":[{"type":"summary_text","text":"hm"}]}`,
		),
	}}
	call := llm.Block{Call: &llm.ToolCall{ID: "call_1", Name: "file.read", Input: `{"path":"a"}`}}
	req := drivertest.Ask("first")
	turn := []llm.Block{thought, call, thought}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn},
		drivertest.Results(turn, "content"))
	want := []any{
		map[string]any{"role": "user", "content": "first"},
		map[string]any{
			"type": "reasoning", "id": "rs_1", "encrypted_content": "e+/=",
			"summary": []any{map[string]any{"type": "summary_text", "text": "hm"}},
		},
		map[string]any{"type": "function_call", "call_id": "call_1", "name": "file__read", "arguments": `{"path":"a"}`},
		map[string]any{"type": "function_call_output", "call_id": "call_1", "output": "content"},
	}
	if diff := cmp.Diff(want, sent(t, responsesSuite, llm.Target{Provider: "work"}, req)["input"]); diff != "" {
		t.Error(diff)
	}
	want = append(want[:1:1], want[2:]...)
	if diff := cmp.Diff(want, sent(t, responsesSuite, llm.Target{Provider: "home"}, req)["input"]); diff != "" {
		t.Error(diff)
	}
}

// A compatible server gets thinking back in the field it used, as long as the question is the current one.
func TestReasoningField(t *testing.T) {
	t.Parallel()
	turn := func(id string) []llm.Block {
		return []llm.Block{
			{
				Thinking: &llm.Thinking{
					Text: "about " + id, Driver: "openai-chat", Opaque: []byte(`{"origin":"ds:fake-model","field":"reasoning"}`),
				},
			},
			{Call: &llm.ToolCall{ID: id, Name: "file.read", Input: "{}"}},
		}
	}
	req := drivertest.Ask("first")
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn("x")},
		drivertest.Results(turn("x"), "1"), drivertest.User("second"),
		llm.Message{Role: llm.RoleAssistant, Blocks: turn("y")}, drivertest.Results(turn("y"), "2"))
	body := sent(t, chatSuite, llm.Target{Provider: "ds", BaseURL: "http://localhost/v1"}, req)
	var got []any
	for _, m := range body["messages"].([]any) {
		if m := m.(map[string]any); m["role"] == "assistant" {
			got = append(got, m["reasoning"])
		}
	}
	if diff := cmp.Diff([]any{nil, "about y"}, got); diff != "" {
		t.Error(diff)
	}
}

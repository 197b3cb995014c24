package anthropic_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
	"kaged.dev/services/harness/internal/adapter/anthropic"
)

// sent returns the body of the driver's request.
func sent(t *testing.T, target llm.Target, req llm.Request) map[string]any {
	t.Helper()
	srv := fakellm.New(t.Errorf)
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("ok")}))
	d := anthropic.New(target, wire.Options{Client: drivertest.Handler(srv)})
	if r := drivertest.Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	var body map[string]any
	if err := json.Unmarshal(srv.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// A long conversation is cached up to its tools, its system prompt and its last two turns, so that a loop pays the
// full price of each token once.
func TestPromptCache(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("first")
	for range 3 {
		turn := []llm.Block{{Call: &llm.ToolCall{ID: wire.NewCallID(), Name: "file.read", Input: "{}"}}}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn},
			drivertest.Results(turn, "content"))
	}
	body := sent(t, llm.Target{}, req)
	var marked []string
	walk(body, "", func(path string) { marked = append(marked, path) })
	want := []string{"/messages/4/content/0", "/messages/6/content/0", "/system/1", "/tools/1"}
	if diff := cmp.Diff(want, marked); diff != "" {
		t.Error(diff)
	}
	// Earlier messages are sent again unchanged, except for the marks; otherwise the cache is missed.
	before, err := json.Marshal(body["messages"].([]any)[:3])
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, drivertest.User("more"))
	after, err := json.Marshal(sent(t, llm.Target{}, req)["messages"].([]any)[:3])
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("%s\n%s", before, after)
	}
}

// A note follows the conversation and the cache marks. So the API finds the earlier requests in its cache up to their
// marks, although each call has another note.
func TestNotesLeaveTheCache(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("first")
	var before []byte
	for step := range 3 {
		req.Note = strings.Repeat("note ", step+1)
		body := sent(t, llm.Target{}, req)
		messages := body["messages"].([]any)
		last := messages[len(messages)-1].(map[string]any)["content"].([]any)
		if note := last[len(last)-1].(map[string]any); note["text"] != req.Note || note["cache_control"] != nil {
			t.Errorf("the conversation ends with %v, want the note without a mark", note)
		}
		if last[len(last)-2].(map[string]any)["cache_control"] == nil {
			t.Errorf("the block before the note has no mark: %v", last)
		}
		messages[len(messages)-1].(map[string]any)["content"] = last[:len(last)-1]
		text, err := json.Marshal(unmarked(messages))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, bytes.TrimSuffix(before, []byte("]"))) {
			t.Errorf("step %d does not begin as the step before:\n%s\n%s", step, before, text)
		}
		before = text
		turn := []llm.Block{{Call: &llm.ToolCall{ID: wire.NewCallID(), Name: "file.read", Input: "{}"}}}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn},
			drivertest.Results(turn, "content"))
	}
}

// unmarked removes the cache marks.
func unmarked(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "cache_control")
		for _, e := range v {
			unmarked(e)
		}
	case []any:
		for _, e := range v {
			unmarked(e)
		}
	}
	return v
}

// walk visits the values with a cache mark, in order of their paths.
func walk(v any, path string, visit func(string)) {
	switch v := v.(type) {
	case map[string]any:
		if v["cache_control"] != nil {
			visit(path)
		}
		for _, k := range []string{"messages", "content", "system", "tools"} {
			if v[k] != nil {
				walk(v[k], path+"/"+k, visit)
			}
		}
	case []any:
		for i, e := range v {
			walk(e, path+"/"+string(rune('0'+i)), visit)
		}
	}
}

// Without a limit the request has the model's own limit, because the API requires one: the catalogue's limit, or a
// safe default.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]float64{"claude-opus-4-5": 64000, "claude-opus-99": 32000, "other": 8192} {
		req := drivertest.Ask("hi")
		req.Model = model
		if got := sent(t, llm.Target{Provider: "anthropic"}, req)["max_tokens"]; got != want {
			t.Errorf("%s: %v", model, got)
		}
	}
}

// kaged's notes have the role of the user for a provider without a system role, and results come before the other
// blocks of a user's turn.
func TestRoles(t *testing.T) {
	t.Parallel()
	req := drivertest.Ask("first")
	turn := []llm.Block{{Call: &llm.ToolCall{ID: "x", Name: "file.read", Input: "{}"}}}
	note := llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{{Text: &llm.Text{Text: "a note"}}}}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: turn}, note,
		drivertest.Results(turn, ""), drivertest.User("go on"))
	var got []string
	for _, m := range sent(t, llm.Target{}, req)["messages"].([]any) {
		m := m.(map[string]any)
		kinds := []string{m["role"].(string)}
		for _, c := range m["content"].([]any) {
			kinds = append(kinds, c.(map[string]any)["type"].(string))
		}
		got = append(got, strings.Join(kinds, " "))
	}
	want := []string{"user text", "assistant tool_use", "user tool_result text text"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Signed thinking is sent only to the provider and the model that it came from.
func TestThinkingOrigin(t *testing.T) {
	t.Parallel()
	thought := &llm.Thinking{
		Text: "hm", Opaque: []byte(`{"origin":"work:fake-model","signature":"s"}`), Driver: "anthropic",
	}
	req := drivertest.Ask("first")
	req.Messages = append(req.Messages, llm.Message{
		Role: llm.RoleAssistant, Blocks: []llm.Block{{Thinking: thought}, {Text: &llm.Text{Text: "a"}}},
	}, drivertest.User("b"))
	for provider, want := range map[string]int{"work": 2, "home": 1} {
		body := sent(t, llm.Target{Provider: provider}, req)
		if got := len(body["messages"].([]any)[1].(map[string]any)["content"].([]any)); got != want {
			t.Errorf("%s is sent %d blocks", provider, got)
		}
	}
	thought.Opaque = []byte("garbage")
	sent(t, llm.Target{Provider: "work"}, req)
}

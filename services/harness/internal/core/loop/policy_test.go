package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// token looks like a GitHub token. It is joined from parts so that no scanner reports a leak.
var token = strings.Join([]string{"ghp_", "9qXk2LmB7vR4tY8wZ1cN6dF3gH5jK0pS2aQ4"}, "")

// reads is a bench with an agent that reads a file with the given text.
func reads(t *testing.T, text string) *bench {
	b := newBench(t, wants(call("c1", "file.read", `{"path":"a","note":"`+token+`"}`)), says("Done."))
	b.tools.run["file.read"] = func(context.Context, string) (string, error) { return text, nil }
	return b
}

// A secret that a tool reads, a person writes or a model repeats is replaced by a marker before the request is
// recorded. The input of a call stays valid JSON. The stored result keeps the secret.
func TestSecretsAreNotSent(t *testing.T) {
	t.Parallel()
	b := reads(t, "KEY="+token)
	b.start.History[0].Blocks[0].Text.Text = "Use " + token + "."
	b.start.Prompts["prompts/primary.md"] = "The token is " + token + "."
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	sent, err := json.Marshal(b.model.requests)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := json.Marshal(of[contract.Record](b.sink))
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"request": string(sent), "record": string(recorded)} {
		if strings.Contains(text, token) || strings.Count(text, "[redacted:github-pat]") < 4 {
			t.Errorf("the %s is %s", where, text)
		}
	}
	if got := results(b.model.requests[1])[0].Content; got != "KEY=[redacted:github-pat]" {
		t.Errorf("the model reads %q", got)
	}
	input := b.model.requests[1].Messages[1].Blocks[0].Call.Input
	if !json.Valid([]byte(input)) || !strings.Contains(input, "[redacted:github-pat]") {
		t.Errorf("the model's own call is %s", input)
	}
	if stored := of[contract.ToolFinished](b.sink); len(stored) != 1 || stored[0].Result.Content != "KEY="+token {
		t.Errorf("the stored result is %+v", stored)
	}
}

// The credentials of the operator's providers are never sent, under any policy. Texts that look like secrets are sent
// if the agent's policy allows it.
func TestCredentialsAreNeverSent(t *testing.T) {
	t.Parallel()
	b := reads(t, "api-key-of-the-operator "+token)
	b.start.Agent.Policy = &dsl.Policy{ShowSecrets: true}
	b.start.Routes["smart"].Targets[0].APIKey = "api-key-of-the-operator"
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := results(b.model.requests[1])[0].Content; got != "[redacted:credential] "+token {
		t.Errorf("the model reads %q", got)
	}
}

// A gated text reaches no model, with or without JSON escapes. The record shows the request before the gates, and a
// further record reports the change (H-PIPE-POL-02, H-PIPE-POL-03).
func TestContentGates(t *testing.T) {
	t.Parallel()
	b := reads(t, `{"content":"one \u003cTOP\u003e \"SECRET\"\ntwo <TOP> \"SECRET\""} abab`)
	b.start.Agent.Policy = &dsl.Policy{ContentGates: []dsl.ContentGate{
		{
			Pattern: `<TOP> "SECRET"`,
			Action:  dsl.GateRedact,
		}, {Pattern: "ab", Action: dsl.GateStrip}, {Pattern: "careful", Action: dsl.GateRedact},
	}}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	const want = `{"content":"one [redacted:content-gate]\ntwo [redacted:content-gate]"} `
	if got := results(b.model.requests[1])[0].Content; got != want {
		t.Errorf("the model reads %s", got)
	}
	if got := b.model.requests[0].System[0]; got != "You are [redacted:content-gate]." {
		t.Errorf("its prompt is %q", got)
	}
	var told []any
	for _, r := range records(b.sink, contract.PolicyModified) {
		told = append(told, r.Payload["step"], r.Payload["texts"])
	}
	if d := cmp.Diff([]any{1, 1, 2, 2}, told); d != "" {
		t.Error(d)
	}
	if first := records(b.sink, preGeneration); len(first) != 1 ||
		!strings.Contains(mustJSON(t, first[0].Payload), "You are careful.") {
		t.Errorf("the record is %+v", first)
	}
}

// A stripped text is removed completely, even if its removal forms it again.
func TestStrippedTextsAreGone(t *testing.T) {
	t.Parallel()
	p := newPolicyProcessor(nil, &dsl.Policy{ContentGates: []dsl.ContentGate{{Pattern: "ab", Action: dsl.GateStrip}}})
	if got := p.gated("x aaabbb y"); got != "x  y" {
		t.Errorf("got %q", got)
	}
}

// Signed thinking cannot be changed: a gate that matches it ends the run.
func TestSignedThinkingBehindAGate(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(_ context.Context, yield func(llm.Event) bool) error {
		_ = yield(llm.Event{Accepted: &llm.Accepted{}}) && yield(llm.Event{Done: &llm.Done{Blocks: []llm.Block{
			{Thinking: &llm.Thinking{Text: "the secret", Opaque: []byte("signed"), Driver: "fake"}},
			{Call: &llm.ToolCall{ID: "c1", Name: "file.read", Input: "{}"}},
		}, Stop: llm.StopToolUse, Usage: used}})
		return nil
	})
	b.start.Agent.Policy = &dsl.Policy{ContentGates: []dsl.ContentGate{{Pattern: "secret", Action: dsl.GateRedact}}}
	fin := b.run(t.Context())
	if fin.Outcome != contract.Failed || fin.Err.Code != fault.PolicyViolation || fin.Err.Details["rule"] != ruleGates {
		t.Errorf("%+v", fin)
	}
}

// A request over the token limit is recorded but not sent: the run fails with the numbers. A request within the limit
// is sent unchanged (H-PIPE-POL-01, H-PIPE-POL-02, H-PIPE-POL-04, H-PIPE-POL-05, H-FAIL-POL-01, H-FAIL-CTX-01,
// H-OPEN-01).
func TestTokenHardLimit(t *testing.T) {
	t.Parallel()
	b := reads(t, strings.Repeat("x", 3000))
	b.start.Agent.Policy = &dsl.Policy{TokenHardLimit: 500}
	fin := b.run(t.Context())
	if fin.Outcome != contract.Failed || fin.Err.Code != fault.PolicyViolation || b.model.calls() != 1 {
		t.Fatalf("%+v after %d calls", fin, b.model.calls())
	}
	if !strings.HasPrefix(fin.Err.Msg, "Policy violation: Token budget exceeded: ") ||
		!strings.HasSuffix(fin.Err.Msg, " > 500. Check your project config.") {
		t.Error(fin.Err.Msg)
	}
	if n := len(records(b.sink, preGenerationStep)); n != 2 {
		t.Errorf("%d requests are recorded, want that of each step", n)
	}
}

// A conversation is rewritten incrementally: a step changes only messages added since the last step.
func TestRewritingIsIncremental(t *testing.T) {
	t.Parallel()
	looked := 0
	r := rewriter{text: func(s string) string { looked++; return strings.ReplaceAll(s, "a", "b") }}
	said := func(text string) llm.Message {
		return llm.Message{Role: llm.RoleUser, Blocks: []llm.Block{{Text: &llm.Text{Text: text}}}}
	}
	messages := []llm.Message{said("a")}
	for range 5 {
		messages = append(messages, said("a"))
		out := r.messages(messages)
		if last := out[len(out)-1].Blocks[0].Text.Text; last != "b" || len(out) != len(messages) ||
			messages[0].Blocks[0].Text.Text != "a" {
			t.Fatalf("%d messages end in %q", len(out), last)
		}
	}
	if looked != len(messages) {
		t.Errorf("looked %d times at %d messages", looked, len(messages))
	}
	messages = slices.Clone(messages)
	messages[2] = said("ca")
	if out := r.messages(messages); out[2].Blocks[0].Text.Text != "cb" || looked != len(messages)+4 {
		t.Errorf("a changed message became %q, looked at %d", out[2].Blocks[0].Text.Text, looked)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(text), `\u003c`, "<"), `\u003e`, ">")
}

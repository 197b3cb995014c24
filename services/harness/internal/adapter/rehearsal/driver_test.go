package rehearsal_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/modelmeta"
	"kaged.dev/pkg/testkit/fakellm/drivertest"
	"kaged.dev/services/harness/internal/adapter/rehearsal"
)

func driver(script string) *rehearsal.Driver {
	return rehearsal.New(llm.Target{Provider: "fake", Model: "demo", Script: []byte(script)})
}

// talk plays a conversation to its end. Each turn that calls tools is answered by the next of the results.
func talk(t *testing.T, d llm.Driver, question string, results ...string) (llm.Request, drivertest.Result) {
	t.Helper()
	req := drivertest.Ask(question)
	for {
		r := drivertest.Call(t, t.Context(), d, req)
		if r.Err != nil || r.Done.Stop != llm.StopToolUse {
			return req, r
		}
		n := 0
		for _, b := range r.Done.Blocks {
			if b.Call != nil {
				n++
			}
		}
		req.Messages = append(req.Messages, llm.Message{
			Role: llm.RoleAssistant, Blocks: r.Done.Blocks,
		}, drivertest.Results(r.Done.Blocks, results[:n]...))
		results = results[n:]
	}
}

// An agent with its own part plays that part from its first step in each call. Other agents play the common part.
func TestParts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../../docs/reference/rehearsal.md")
	if err != nil {
		t.Fatal(err)
	}
	d := driver(string(regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)[1][1]))
	for range 2 {
		req := drivertest.Ask("Find the failing test.")
		req.Agent = "primary.subagents.scout"
		r := drivertest.Call(t, t.Context(), d, req)
		if r.Err != nil || r.Text != "TestGreet in greet_test.go fails." {
			t.Errorf("the child says %q: %v", r.Text, r.Err)
		}
	}
	_, r := talk(t, d, "Which test fails?", "TestGreet in greet_test.go fails.")
	if r.Err != nil || r.Text != "It is TestGreet." {
		t.Errorf("the root says %q: %v", r.Text, r.Err)
	}
	alone := driver("agents: {primary.subagents.scout: {steps: [{say: hello}]}}")
	if r := drivertest.Call(t, t.Context(), alone, drivertest.Ask("Hi.")); !errors.Is(r.Err, fault.ScriptMismatch) {
		t.Errorf("an agent without a part: %v", r.Err)
	}
}

// The script of the reference page can be played from the first request to beyond its end.
func TestReferencePage(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/reference/rehearsal.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	d := driver(string(script))
	req, r := talk(t, d, "fix the failing test", "greet_test.go:7", "package greet", "func TestGreet")
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Text != "Found it: the greeting lacks its comma.\n" {
		t.Errorf("the last text is %q", r.Text)
	}
	want := []llm.Block{
		{Thinking: &llm.Thinking{Text: "I should find the test first.", Driver: "rehearsal"}},
		{Text: &llm.Text{Text: "Let me look for the failing test."}},
		{Call: &llm.ToolCall{Name: "search.grep", Input: `{"pattern":"func Test","path":"."}`}},
	}
	if diff := cmp.Diff(want, req.Messages[1].Blocks, cmpopts.IgnoreFields(llm.ToolCall{}, "ID")); diff != "" {
		t.Error(diff)
	}
	req.Messages = append(req.Messages, llm.Message{
		Role: llm.RoleAssistant, Blocks: r.Done.Blocks,
	}, drivertest.User("and now?"))
	for range 3 {
		r := drivertest.Call(t, t.Context(), d, req)
		if r.Text != "That is all I have rehearsed." {
			t.Errorf("beyond the end it says %q, %v", r.Text, r.Err)
		}
		req.Messages = append(req.Messages, llm.Message{
			Role: llm.RoleAssistant, Blocks: r.Done.Blocks,
		}, drivertest.User("and now?"))
	}
}

// The usage is the script's, the deltas are words, and a rehearsal has no price.
func TestAnswer(t *testing.T) {
	d := driver("steps:\n- say: one two  three\n  usage: {input: 3, output: 4, reasoning: 1, cache_read: 5, " +
		"cache_write: 6}\n  stop: length\n")
	r := drivertest.Call(t, t.Context(), d, drivertest.Ask("hi"))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	want := &llm.Done{
		Blocks: []llm.Block{{Text: &llm.Text{Text: "one two  three"}}},
		Stop:   llm.StopLength,
		Usage:  llm.Usage{Input: 3, Output: 4, Reasoning: 1, CacheRead: 5, CacheWrite: 6},
	}
	if diff := cmp.Diff(want, r.Done); diff != "" {
		t.Error(diff)
	}
	if len(r.Events) != 6 {
		t.Errorf("%d events", len(r.Events))
	}
	if _, known := modelmeta.Lookup("anthropic", rehearsal.Name, "claude-opus-4-5"); known {
		t.Error("a rehearsal has a price")
	}
}

// A request that the script does not expect fails with both sides of the mismatch.
func TestMismatch(t *testing.T) {
	d := driver("steps:\n- expect: [hello, /wor+ld/]\n  tool: {name: file.read}\n- expect: contents\n  say: ok\n")
	if _, r := talk(t, d, "hello worrrld", "the contents"); r.Err != nil {
		t.Fatal(r.Err)
	}
	_, r := talk(t, d, "good bye")
	f := mismatch(t, r.Err)
	if !strings.Contains(f.Msg, `expects "hello"`) || !strings.Contains(f.Msg, "good bye") || f.Details["step"] != 1 {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	_, r = talk(t, d, "hello world", "nothing")
	if f := mismatch(t, r.Err); !strings.Contains(f.Msg, `Step 2`) || !strings.Contains(f.Msg, "nothing") {
		t.Error(f.Msg)
	}
	req, r := talk(t, d, "hello world", "contents")
	req.Messages = append(req.Messages, llm.Message{
		Role: llm.RoleAssistant, Blocks: r.Done.Blocks,
	}, drivertest.User("more"))
	r = drivertest.Call(t, t.Context(), d, req)
	if f := mismatch(t, r.Err); !strings.Contains(f.Msg, "has no step 3") {
		t.Error(f.Msg)
	}
}

func mismatch(t *testing.T, err error) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.ScriptMismatch {
		t.Fatalf("the error is %v", err)
	}
	return f
}

// A looping script starts again after its last step, and each call has its own id.
func TestLoop(t *testing.T) {
	d := driver("loop: true\nsteps:\n- tool: {name: file.read, input: {path: a}}\n- say: done\n")
	req := drivertest.Ask("go")
	ids := map[string]bool{}
	for i := range 6 {
		r := drivertest.Call(t, t.Context(), d, req)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if (r.Text == "done") != (i%2 == 1) {
			t.Errorf("turn %d says %q", i, r.Text)
		}
		req.Messages = append(req.Messages, llm.Message{
			Role: llm.RoleAssistant, Blocks: r.Done.Blocks,
		}, drivertest.Results(r.Done.Blocks, "ok"))
		if c := r.Done.Blocks[0].Call; c != nil {
			ids[c.ID] = true
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
}

// A rehearsed refusal equals a real one. After text it is an answer that broke off.
func TestFail(t *testing.T) {
	d := driver("steps:\n- fail: {status: 429, message: slow down, retry_after: 1500ms}\n")
	f := drivertest.Fault(t, drivertest.Call(t, t.Context(), d, drivertest.Ask("hi")).Err, fault.ProviderRateLimited)
	if f.Details["retry_after_ms"] != int64(1500) || f.Details["status"] != 429 || !strings.Contains(f.Msg, "slow down") {
		t.Errorf("%v", f)
	}
	d = driver("steps:\n- fail: {status: 400, message: 'prompt is too long: 2 > 1'}\n")
	drivertest.Fault(t, drivertest.Call(t, t.Context(), d, drivertest.Ask("hi")).Err, fault.ContextOverflow)
	d = driver("steps:\n- say: I was about\n  fail: {status: 500, message: the line went dead}\n")
	r := drivertest.Call(t, t.Context(), d, drivertest.Ask("hi"))
	drivertest.Fault(t, r.Err, fault.ProviderBadResponse)
	if r.Text != "I was about" {
		t.Errorf("text %q", r.Text)
	}
}

// A delay takes its time, and the end of the context ends it.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := driver("steps:\n- say: a b c\n  delay: 10s\n")
		start := time.Now()
		if r := drivertest.Call(t, t.Context(), d, drivertest.Ask("hi")); r.Err != nil {
			t.Fatal(r.Err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("three words took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		r := drivertest.Call(t, ctx, d, drivertest.Ask("hi"))
		if !errors.Is(r.Err, context.DeadlineExceeded) || r.Text != "a" {
			t.Errorf("%q, %v", r.Text, r.Err)
		}
	})
	for range driver("steps:\n- say: a b c\n").Stream(t.Context(), drivertest.Ask("hi")) {
		break
	}
}

// An invalid script is refused in one sentence with its line.
func TestBadScripts(t *testing.T) {
	for script, want := range map[string]struct {
		msg  string
		line any
	}{
		"":                                 {"one document", nil},
		"steps: []":                        {"no steps", nil},
		"agents: {a: {steps: []}}":         {`the part of "a" has no steps`, nil},
		"agents: {a: {step: []}}":          {"unknown field", 1},
		"steps:\n- say: a\n---\nsteps: []": {"one document", nil},
		"steps:\n- say: a\n- sya: b":       {"unknown field", 3},
		"stepz: []":                        {"unknown field", 1},
		"steps:\n- say: [a":                {"", 2},
		"steps:\n- expect: x":              {"does nothing", 2},
		"steps:\n- say: a\n- stop: maybe\n  say: b":               {"stop must be", 3},
		"steps:\n- fail: {status: 200}":                           {"status from 400", 2},
		"steps:\n- say: a\n  delay: soon":                         {"no duration", 3},
		"steps:\n- say: a\n  delay: -1s":                          {"no duration", 3},
		"steps:\n- default: true\n  say: a\n- say: b":             {"last step", 2},
		"loop: true\nsteps:\n- say: a\n- say: b\n  default: true": {"exclude", nil},
		"steps:\n- tool: {input: {}}":                             {"needs a name", 2},
		"steps:\n- tool: {name: a, inputs: {}}":                   {"unknown field", 2},
		"steps:\n- expect: /(/\n  say: a":                         {"regular expression", 2},
		"steps:\n- say: a\n  usage: {input: -1}":                  {"negative", 2},
		"steps:\n- say: &x a\n- say: *x":                          {"aliases", 2},
		"steps:\n- say: {a: b}":                                   {"a mapping stands where a text is needed", 2},
		"steps:\n- say: x\n  usage: {input: many}":                {"a text stands where a number is needed", 3},
		"steps:\n- say: x\n  default: [1]":                        {"a list stands where a boolean is needed", 3},
		"steps: 7":                                                {"must be a list", 1},
		"steps:\n- tool: {name: a, input: {x: .nan}}":             {"no JSON", 2},
		"steps:\n- say: " + strings.Repeat("[", 500):              {"too deeply", 2},
		"steps:\n" + strings.Repeat("- ", 500):                    {"too deeply", 2},
		"# " + strings.Repeat("x", 1<<20):                         {"more than", nil},
	} {
		_, err := rehearsal.Parse([]byte(script))
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.ProviderNotConfigured {
			t.Errorf("%.60q: %v", script, err)
			continue
		}
		if !strings.Contains(f.Msg, want.msg) || f.Details["line"] != want.line || strings.Contains(f.Msg, "\n") {
			t.Errorf("%.60q: %q, line %v", script, f.Msg, f.Details["line"])
		}
		r := drivertest.Call(t, t.Context(), driver(script), drivertest.Ask("hi"))
		if !errors.Is(r.Err, fault.ProviderNotConfigured) {
			t.Errorf("%.60q: the call yields %v", script, r.Err)
		}
	}
}

// Input is JSON with its keys in the script's order, or a text used unchanged.
func TestInput(t *testing.T) {
	script := "steps:\n- tool:\n  - {name: a, input: {z: 1, a: [true, null, 1.5, \"x\"], m: {k: v}}}\n  - {name: b, " +
		"input: '{\"broken\":'}\n  - name: c\n"
	r := drivertest.Call(t, t.Context(), driver(script), drivertest.Ask("hi"))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	for i, want := range []string{`{"z":1,"a":[true,null,1.5,"x"],"m":{"k":"v"}}`, `{"broken":`, "{}"} {
		if got := r.Done.Blocks[i].Call.Input; got != want {
			t.Errorf("input %d is %s", i, got)
		}
	}
}

// No script makes the parser panic or hang, and a parsed script can be played.
func FuzzParse(f *testing.F) {
	f.Add("steps:\n- say: a\n")
	f.Add("loop: true\nsteps:\n- {expect: [/a/], tool: {name: x, input: {a: [1, 2]}}, usage: {input: 1}, fail: " +
		"{status: 500}}\n")
	f.Add("steps:\n- default: true\n  think: |\n    a\n    b\n")
	f.Add("steps:\n- tool:\n  - name: a\n    input: \"{\"\n")
	f.Add("? - a\n: *x\n!!binary &a")
	f.Fuzz(func(t *testing.T, script string) {
		if _, err := rehearsal.Parse([]byte(script)); err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		drivertest.Call(t, ctx, driver(script), drivertest.Ask("hi"))
	})
}

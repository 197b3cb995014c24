package drivertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/testkit/fakellm"
)

// text: the deltas are the text, in order and complete, and the last event holds all of it.
func (s Suite) text(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	want := "Grüße aus 東京 🗼, \"quoted\"\nand \\ more \t<tags> & such"
	srv.Script(
		fakellm.Steps(
			fakellm.Step{fakellm.GotUser("hello"), fakellm.GotSystem("Be brief."), fakellm.Ping(), fakellm.Say(want)},
		),
	)
	r := Call(t, t.Context(), d, Ask("hello"))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Text != want {
		t.Errorf("deltas say %q, want %q", r.Text, want)
	}
	wantBlocks := []llm.Block{{Text: &llm.Text{Text: want}}}
	if diff := cmp.Diff(wantBlocks, r.Done.Blocks); diff != "" {
		t.Error(diff)
	}
	if r.Done.Stop != llm.StopEnd {
		t.Errorf("stop is %s", r.Done.Stop)
	}
}

// thinking: thinking is passed on as thinking, and sent back with its signature, byte for byte, together with the
// turn's calls.
func (s Suite) thinking(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	thought := "First “look” at it,\n\n then <decide> 🤔"
	srv.Script(fakellm.Steps(
		fakellm.Step{
			fakellm.Think(thought),
			fakellm.Redacted("opaque+/data=="),
			fakellm.Say("Let me look."),
			fakellm.Tool("file.read", `{"path": "a"}`),
		},
		fakellm.Step{fakellm.GotResult("contents"), fakellm.Say("Done.")},
	))
	req := Ask("think")
	r := Call(t, t.Context(), d, req)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Thinking != thought {
		t.Errorf("thinking deltas say %q", r.Thinking)
	}
	req.Messages = append(
		req.Messages,
		llm.Message{Role: llm.RoleAssistant, Blocks: r.Done.Blocks},
		Results(r.Done.Blocks, "contents"),
	)
	if r := Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	s.checkThinking(t, srv.Requests()[1], thought)
	// Thinking of another driver, provider or model is not sent.
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Thinking != nil {
				b.Thinking.Driver = "other"
			}
		}
	}
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("ok")}))
	if r := Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, m := range srv.Requests()[2].Messages {
		for _, b := range m.Blocks {
			if b.Thinking != nil {
				t.Errorf("thinking of another driver was sent: %+v", b.Thinking)
			}
		}
	}
}

func (s Suite) checkThinking(t *testing.T, req fakellm.Request, thought string) {
	t.Helper()
	var got []llm.Thinking
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Thinking != nil {
				got = append(got, *b.Thinking)
			}
		}
	}
	want := []llm.Thinking{
		{Text: thought, Opaque: []byte(fakellm.Signature(thought)), Driver: s.Driver},
		{Opaque: []byte("opaque+/data=="), Driver: s.Driver},
	}
	if s.Driver == string(fakellm.OpenAIChat) {
		// The format has neither signatures nor unreadable thinking.
		want = []llm.Thinking{{Text: thought, Driver: s.Driver}}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("thinking given back: %s", diff)
	}
}

// severalTools: calls arrive in order with their dotted names, and their results are sent right after them.
func (s Suite) severalTools(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	srv.Script(fakellm.Steps(
		fakellm.Step{
			fakellm.GotTool("file.read"), fakellm.GotTool("shell.bash"), fakellm.Say("Both."),
			fakellm.ToolID(
				"call_a",
				"file.read",
				`{"path":"a b/ü.txt"}`,
			), fakellm.ToolID("call_b", "shell.bash", `{"path":"ls -l"}`),
		},
		fakellm.Step{fakellm.GotResult("one"), fakellm.GotResult("two"), fakellm.Say("Thanks.")},
	))
	req := Ask("both")
	r := Call(t, t.Context(), d, req)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	want := &llm.Done{Stop: llm.StopToolUse, Usage: r.Done.Usage, Blocks: []llm.Block{
		{Text: &llm.Text{Text: "Both."}},
		{Call: &llm.ToolCall{ID: "call_a", Name: "file.read", Input: `{"path":"a b/ü.txt"}`}},
		{Call: &llm.ToolCall{ID: "call_b", Name: "shell.bash", Input: `{"path":"ls -l"}`}},
	}}
	if diff := cmp.Diff(want, r.Done); diff != "" {
		t.Error(diff)
	}
	req.Messages = append(
		req.Messages,
		llm.Message{Role: llm.RoleAssistant, Blocks: r.Done.Blocks},
		Results(r.Done.Blocks, "one", "two"),
	)
	if r := Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	got := srv.Requests()[1].Messages[1].Blocks
	if diff := cmp.Diff(r.Done.Blocks, got); diff != "" {
		t.Errorf("the turn given back: %s", diff)
	}
}

// stopReasons: a provider's reason becomes one of three, and a refusal an error with that reason.
func (s Suite) stopReasons(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for _, c := range []struct {
		stop string
		want llm.StopReason
	}{{"stop", llm.StopEnd}, {"length", llm.StopLength}, {"", llm.StopEnd}} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("some text"), fakellm.Stop(c.stop)}))
		r := Call(t, t.Context(), d, Ask("hello"))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Done.Stop != c.want {
			t.Errorf("stop %q is read as %s", c.stop, r.Done.Stop)
		}
	}
	// A call makes the reason tool use, for any reason of the provider, and a truncated call is kept as it is; Google
	// sends only complete calls.
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.read", `{"path":"half`), fakellm.Stop("length")}))
	r := Call(t, t.Context(), d, Ask("hello"))
	if s.google() {
		if r.Err != nil || r.Done.Stop != llm.StopLength || len(r.Done.Blocks) != 0 {
			t.Errorf("an answer that was cut off before a call is read as %+v, %v", r.Done, r.Err)
		}
	} else if r.Err != nil || r.Done.Stop != llm.StopToolUse || r.Done.Blocks[0].Call.Input != `{"path":"half` {
		t.Errorf("a call that was cut off is read as %+v, %v", r.Done, r.Err)
	}
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("part"), fakellm.Tool("file.read", ``), fakellm.Stop("length")}))
	if r := Call(t, t.Context(), d, Ask("hello")); r.Err != nil || r.Done.Stop != llm.StopLength ||
		len(r.Done.Blocks) != 1 {
		t.Errorf("a call that was cut off before its input is read as %+v, %v", r.Done, r.Err)
	}
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say("part"), fakellm.Stop("content_filter")}))
	Fault(t, Call(t, t.Context(), d, Ask("hello")).Err, rejected)
}

// usage: each token is counted in one field, however the provider counts.
func (s Suite) usage(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	want := llm.Usage{Input: 100, Output: 50, Reasoning: 20, CacheRead: 1000, CacheWrite: 30}
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.Usage(want), fakellm.Say("counted")}))
	r := Call(t, t.Context(), d, Ask("count"))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if s.google() {
		// The format counts cache writes as input.
		want.Input, want.CacheWrite = want.Input+want.CacheWrite, 0
	}
	if r.Done.Usage != want {
		t.Errorf("usage is %+v, want %+v", r.Done.Usage, want)
	}
}

// cached: the continuation of a conversation reads the whole earlier request from the provider's prompt cache, also
// after a turn with many calls.
func (s Suite) cached(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	srv.CachePrompts()
	const calls, slack = 15, 2 * 128 // OpenAI caches in steps of 128 tokens
	turn := fakellm.Step{fakellm.Think("hm")}
	for i := range calls {
		turn = append(turn, fakellm.Tool("file.read", fmt.Sprintf(`{"path":"%d"}`, i)))
	}
	srv.Script(fakellm.Steps(turn, turn, fakellm.Step{fakellm.Say("done")}))
	req := Ask(strings.Repeat("a long question ", 500))
	sent := int64(0)
	for i := range 3 {
		r := Call(t, t.Context(), d, req)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		u := r.Done.Usage
		if i > 0 && (u.CacheRead < sent-slack || u.CacheRead > sent) {
			t.Errorf("request %d reads %d tokens from the cache; the request before had %d", i+1, u.CacheRead, sent)
		}
		sent = u.TotalInput()
		contents := slices.Repeat([]string{strings.Repeat("content ", 50)}, calls)
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: r.Done.Blocks},
			Results(r.Done.Blocks, contents...))
	}
}

// toolInput: input is a JSON object, {} for an empty one, and the raw text if it is invalid JSON; it is sent back as an
// object.
func (s Suite) toolInput(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for wrote, want := range map[string]string{
		"": "{}", "null": "{}", "{}": "{}", `{"a": [1, 2.50]}`: `{"a": [1, 2.50]}`, `{"a":`: `{"a":`, "[1]": "[1]",
		"plain": "plain",
	} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Tool("file.read", wrote)}, fakellm.Step{fakellm.Say("ok")}))
		req := Ask("call")
		r := Call(t, t.Context(), d, req)
		if s.google() && json.Unmarshal([]byte(want), &map[string]any{}) != nil {
			// The format allows only objects: such an answer is malformed.
			Fault(t, r.Err, badResponse)
			continue
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := r.Done.Blocks[0].Call.Input; got != want {
			t.Errorf("input %q is read as %q", wrote, got)
		}
		req.Messages = append(
			req.Messages,
			llm.Message{Role: llm.RoleAssistant, Blocks: r.Done.Blocks},
			Results(r.Done.Blocks, ""),
		)
		if r := Call(t, t.Context(), d, req); r.Err != nil {
			t.Errorf("input %q given back: %v", wrote, r.Err)
		}
	}
}

// toolNames: names that providers do not accept, or that have equal encodings, are decoded to the originals (notes 2: a
// reversible encoding with a collision check).
func (s Suite) toolNames(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	names := []string{
		"a.b",
		"a__b",
		"a..b",
		"a.__b",
		"a____b",
		"é.x",
		"plain",
		strings.Repeat("very.long.", 9) + "1",
		strings.Repeat("very.long.", 9) + "2",
	}
	req := Ask("names")
	req.Tools = nil
	for _, n := range names {
		req.Tools = append(req.Tools, Tool(n))
	}
	for i, n := range names {
		srv.Handle(func(r *fakellm.Request) fakellm.Step {
			return fakellm.Step{fakellm.Tool(r.WireTools[i], "{}")}
		})
		r := Call(t, t.Context(), d, req)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := r.Done.Blocks[0].Call.Name; got != n {
			t.Errorf("the call of %q is read as one of %q", n, got)
		}
	}
}

// toolIDs: every call has a unique id in its conversation, even if the server sends no id or repeats one, whether the
// driver keeps the conversation between requests or not.
func (s Suite) toolIDs(t *testing.T) {
	t.Parallel()
	for _, memory := range []*llm.Memory{nil, llm.NewMemories(1 << 20).New()} {
		s.uniqueIDs(t, memory)
	}
}

func (s Suite) uniqueIDs(t *testing.T, memory *llm.Memory) {
	t.Helper()
	srv, d := s.start(t, wire.Options{})
	req := Ask("ids")
	req.Memory = memory
	seen := map[string]bool{}
	for range 3 {
		srv.Script(fakellm.Steps(fakellm.Step{
			fakellm.ToolID(
				"call_0",
				"file.read",
				"{}",
			), fakellm.ToolID("", "file.read", "{}"), fakellm.ToolID("functions.read:0", "file.read", "{}"),
		}))
		r := Call(t, t.Context(), d, req)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if len(r.Done.Blocks) != 3 {
			t.Fatalf("%d calls", len(r.Done.Blocks))
		}
		for _, b := range r.Done.Blocks {
			if id := b.Call.ID; id == "" || seen[id] {
				t.Errorf("id %q is empty or used before", id)
			}
			seen[b.Call.ID] = true
		}
		req.Messages = append(
			req.Messages,
			llm.Message{Role: llm.RoleAssistant, Blocks: r.Done.Blocks},
			Results(r.Done.Blocks, "1", "2", "3"),
		)
	}
}

// conversation: any conversation of kaged is sent in a form that providers accept; the fake refuses others.
func (s Suite) conversation(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	text := func(role llm.Role, s string) llm.Message {
		return llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: s}}}}
	}
	call := func(ids ...string) llm.Message {
		m := llm.Message{Role: llm.RoleAssistant}
		for _, id := range ids {
			m.Blocks = append(m.Blocks, llm.Block{Call: &llm.ToolCall{ID: id, Name: "file.read", Input: "{}"}})
		}
		return m
	}
	result := func(id, content string, failed bool) llm.Message {
		return llm.Message{
			Role:   llm.RoleTool,
			Blocks: []llm.Block{{Result: &llm.ToolResult{CallID: id, Name: "file.read", Content: content, IsError: failed}}},
		}
	}
	srv.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("ok")} })
	for name, messages := range map[string][]llm.Message{
		"empty texts": {User("a"), text(llm.RoleAssistant, ""), text(llm.RoleAssistant, " \n"), User("")},
		"neighbours": {
			User("a"), User("b"), text(llm.RoleAssistant, "c"), text(llm.RoleAssistant, "d"), User("e"),
		},
		"note in the middle":      {User("a"), text(llm.RoleAssistant, "b"), text(llm.RoleSystem, "summary"), User("c")},
		"note first":              {text(llm.RoleSystem, "summary"), text(llm.RoleAssistant, "b"), User("c")},
		"begins with the answer":  {text(llm.RoleAssistant, "b"), User("c")},
		"results in two":          {User("a"), call("x", "y"), result("y", "2", false), result("x", "1", false)},
		"note before results":     {User("a"), call("x"), text(llm.RoleSystem, "note"), result("x", "1", false)},
		"question before results": {User("a"), call("x"), User("hurry"), result("x", "1", false), User("thanks")},
		"cut off":                 {User("a"), call("x", "y"), result("x", "1", false), User("what happened?")},
		"stray result": {
			User("a"), result("z", "0", false), call("x"), result("x", "1", false), result("x", "again", false),
		},
		"empty failure": {User("a"), call("x"), result("x", "", true)},
		"other provider's ids": {
			User("a"), call("functions.read:0", strings.Repeat("é", 60)), result("functions.read:0", "", false),
		},
		"thinking only": {
			User("a"), {Role: llm.RoleAssistant, Blocks: []llm.Block{{Thinking: &llm.Thinking{Text: "hm"}}}}, User("b"),
		},
	} {
		req := Ask("")
		req.Messages = messages
		if r := Call(t, t.Context(), d, req); r.Err != nil {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
}

// maxTokens: the limit reaches the provider (H-STREAM-LIM-01); without one the provider's own applies
// (H-STREAM-LIM-02).
func (s Suite) maxTokens(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	srv.Script(fakellm.Steps(fakellm.Step{fakellm.GotMaxTokens(777), fakellm.Say("ok")}, fakellm.Step{fakellm.Say("ok")}))
	req := Ask("bound")
	req.MaxOutputTokens = 777
	if r := Call(t, t.Context(), d, req); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := Call(t, t.Context(), d, Ask("unbound")); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := srv.Requests()[1].MaxTokens; got != 0 && s.Driver != string(fakellm.Anthropic) {
		t.Errorf("an unbound request is bound to %d", got)
	}
}

// deltas: many small deltas arrive complete and in order, with and without pauses between them.
func (s Suite) deltas(t *testing.T) {
	t.Parallel()
	srv, d := s.start(t, wire.Options{})
	for i, interval := range []time.Duration{0, time.Millisecond} {
		srv.Script(fakellm.Steps(fakellm.Step{fakellm.Say(fmt.Sprint("run ", i, " ")), fakellm.Deltas(200, 8, interval)}))
		r := Call(t, t.Context(), d, Ask("many"))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if want := fmt.Sprint("run ", i, " ") + fakellm.DeltaText(200, 8); r.Text != want {
			t.Errorf("text is %q", r.Text)
		}
	}
}

package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// notices returns the ids of the calls with a warning in their result.
func notices(s *sink) []string {
	var ids []string
	for _, e := range of[contract.ToolFinished](s) {
		if strings.Contains(e.Result.Content, "kaged: ") {
			ids = append(ids, e.Result.CallID)
		}
	}
	return ids
}

// turns returns answers of a model. Each round is one turn, and each letter one call.
func turns(rounds ...string) []play {
	tools := map[rune]llm.ToolCall{
		'a': {Name: "file.read", Input: `{"path":"a","lines":[1,2] }`},
		'A': {Name: "file.read", Input: ` {"lines":[1,2],"path":"a"}`}, // the same input, written differently
		'b': {Name: "file.read", Input: `{"path":"b"}`},
		'c': {Name: "shell.bash", Input: `{"command":"c"}`},
		'u': {Name: "no.tool", Input: `{`},
		'n': {Name: "file.write", Input: `{}`},
		'p': {Name: "shell.process", Input: `{"action":"poll"}`},
		'k': {Name: "shell.process", Input: `{"action":"kill"}`},
	}
	var answers []play
	n := 0
	for _, round := range rounds {
		var calls []llm.ToolCall
		for _, letter := range round {
			n++
			c := tools[letter]
			c.ID = fmt.Sprint(n)
			calls = append(calls, c)
		}
		answers = append(answers, wants(calls...))
	}
	return answers
}

// An agent that repeats a call with equal results is warned in the result, and ended if it continues. The same holds
// for a cycle of a few calls. Other calls in between, and different results, reset the count.
func TestLoops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rounds string   // each letter is a turn; brackets join calls to one turn
		told   []string // the calls with a warning
		ended  int      // number of repeats at the agent's end, 0 without an end
	}{
		"a call":                       {rounds: "aaa", told: []string{"3"}},
		"a call that goes on":          {rounds: "aaaa", told: []string{"3"}, ended: 4},
		"in other words":               {rounds: "aAaA", told: []string{"3"}, ended: 4},
		"a call that fails":            {rounds: "cccc", told: []string{"3"}, ended: 4},
		"a tool that is not there":     {rounds: "uuuu", told: []string{"3"}, ended: 4},
		"two calls":                    {rounds: "abababab", told: []string{"8"}},
		"two calls that go on":         {rounds: "ababababa", told: []string{"8"}, ended: 4},
		"three calls that go on":       {rounds: "abcabcabcabca", told: []string{"12"}, ended: 4},
		"four calls":                   {rounds: "abckabckabckabckabck"},
		"it is told and does another":  {rounds: "aaabaab", told: []string{"3"}},
		"it is told and comes back":    {rounds: "aaabaaa", told: []string{"3"}, ended: 3},
		"it is told twice":             {rounds: "aaabbb", told: []string{"3", "6"}},
		"a result that changes":        {rounds: "nnnnnn"},
		"a call that waits":            {rounds: "pppppp"},
		"a wait between":               {rounds: "aapaapaap"},
		"another action of that tool":  {rounds: "kkkk", told: []string{"3"}, ended: 4},
		"in one turn":                  {rounds: "(aaaaaa)b", told: []string{"3"}},
		"in one turn, and in the next": {rounds: "(aaaaaa)a", told: []string{"3"}, ended: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rounds []string
			for i, part := range strings.FieldsFunc(c.rounds, func(r rune) bool { return r == '(' || r == ')' }) {
				if i == 0 && c.rounds[0] == '(' {
					rounds = append(rounds, part)
				} else {
					rounds = append(rounds, strings.Split(part, "")...)
				}
			}
			answers := turns(rounds...)
			if c.ended == 0 {
				answers = append(answers, says("Done."))
			}
			b := newBench(t, answers...)
			b.start.MaxSteps = 100
			b.start.Agent.Tools = append(b.start.Agent.Tools, "shell.process")
			var writes atomic.Int64
			b.tools.run["file.write"] = func(context.Context, string) (string, error) {
				return fmt.Sprintf(`{"written":%d}`, writes.Add(1)), nil
			}
			b.tools.run["file.read"] = func(_ context.Context, input string) (string, error) {
				return fmt.Sprint(len(input)), nil
			}
			b.tools.run["shell.process"] = func(context.Context, string) (string, error) { return "{}", nil }
			fin := b.run(t.Context())
			if d := cmp.Diff(c.told, notices(b.sink)); d != "" {
				t.Error(d)
			}
			if c.ended == 0 {
				if fin.Outcome != contract.Completed {
					t.Errorf("%+v", fin)
				}
				return
			}
			if fin.Outcome != contract.Failed || fin.Err.Code != fault.LoopDetected || fin.Err.Details["repeats"] != c.ended ||
				fin.Err.Details["tool"] == "" || b.model.calls() != len(rounds) {
				t.Errorf("%v %v after %d calls", fin.Err, fin.Err.Details, b.model.calls())
			}
			if done := of[contract.StepDone](b.sink); len(done) != len(rounds) {
				t.Errorf("%d steps were stored of %d", len(done), len(rounds))
			}
		})
	}
}

// The warning and the end of an agent are recorded with the result that caused them.
func TestLoopsAreRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t, turns("c", "c", "c", "c")...)
	b.run(t.Context())
	var got []map[string]any
	for _, e := range of[contract.ToolFinished](b.sink) {
		for _, r := range e.Audit {
			if r.Type == loopDetected {
				got = append(got, r.Payload)
			}
		}
	}
	common := func(call string, step, repeats int, ended bool) map[string]any {
		return map[string]any{
			"run_id": "run1", "session_id": "session1", "step": step, "call_id": call, "tools": []any{"shell.bash"},
			"repeats": repeats, "ended": ended,
		}
	}
	if d := cmp.Diff([]map[string]any{common("3", 3, 3, false), common("4", 4, 4, true)}, got); d != "" {
		t.Error(d)
	}
}

// A child that repeats calls fails as a call of its parent, which continues. A parent that calls a child repeatedly
// with equal answers is warned as for any tool, although each answer has another id and cost.
func TestLoopsInATree(t *testing.T) {
	t.Parallel()
	f := newFamily(t, wants(asks("c1", "scout", "Look.")), wants(asks("c2", "echo", "Hey.")),
		wants(asks("c3", "echo", "Hey.")), wants(asks("c4", "echo", "Hey.")), says("Done."))
	f.child(f.start.Agent, "scout", turns("b", "b", "b", "b")...)
	f.child(f.start.Agent, "echo", says("Hey."), says("Hey."), says("Hey."))
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := f.answers()["c1"]; !got.failed || got.Error.Code != "loop_detected" || got.Steps != 4 {
		t.Errorf("the parent reads %+v", got)
	}
	if d := cmp.Diff([]string{"c4"}, notices(f.sink)[1:]); d != "" {
		t.Error(d)
	}
}

// A notice is a field of a result that is a JSON object, and follows any other result.
func TestNotice(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"a":1}`:       `{"a":1,"notice":"Stop \"it\"."}`,
		` { "a" : {} }`: `{ "a" : {},"notice":"Stop \"it\"."}`,
		`{}`:            `{"notice":"Stop \"it\"."}`,
		`{"a":1`:        "{\"a\":1\n\nStop \"it\".",
		`{a}`:           "{a}\n\nStop \"it\".",
		`[{}]`:          "[{}]\n\nStop \"it\".",
		`text`:          "text\n\nStop \"it\".",
		``:              `Stop "it".`,
	} {
		got := withNotice(content, `Stop "it".`)
		if got != want {
			t.Errorf("%s: got %s, want %s", content, got, want)
		}
		if strings.Contains(want, "notice") && !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON", got)
		}
	}
}

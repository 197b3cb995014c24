package run

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"kaged.dev/pkg/client"
	"kaged.dev/services/kaged/internal/cli/kit"
)

func frame(t *testing.T, channel, kind, payload string) client.Frame {
	t.Helper()
	raw := `{"channel":"` + channel + `","seq":1,"type":"` + kind + `","payload":` + payload + `}`
	f := client.Frame{Raw: []byte(raw)}
	if err := json.Unmarshal(f.Raw, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// Text goes to stdout, steps to stderr. The run is over after its own end and the end of its message, in either order.
func TestPrinter(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	p := newPrinter(&out, &progress, false)
	for _, f := range []client.Frame{
		frame(t, "events", "run.started", `{"run_id":"R"}`),
		frame(t, "output", "message.start", `{"provider":"p","model":"m","rehearsal":true}`),
		frame(t, "output", "message.delta", `{"kind":"thinking","delta":"hmm"}`),
		frame(t, "output", "message.delta", `{"kind":"text","delta":"Hello\u001b[2J\u202e"}`),
		frame(t, "output", "message.tool_call", `{"id":"1","name":"file.read","input":{"path":"a\tb"}}`),
		frame(t, "output", "message.tool_result",
			`{"tool_call_id":"1","name":"file.read","output":"{\"error\":{\"code\":\"file_not_found\",\"message\":\"It is `+
				`not there.\",\"hint\":\"List the folder.\"}}","is_error":true}`),
		frame(t, "events", "run.cage",
			`{"run_id":"R","cage_status":"caged","tier":"userns","policy":"fs rw project:/","best_effort":["Memory is `+
				`watched."],"notes":["Not searched: the deepest folders."]}`),
		frame(t, "events", "net.attempt",
			`{"run_id":"R","target":"a.example:443","allowed":false,"rule":"No rule allows it.","count":3}`),
		frame(t, "events", "net.attempt",
			`{"run_id":"R","target":"b.example:443","allowed":true,"rule":"b.example:443","count":1}`),
		frame(t, "events", "run.cage", `{"run_id":"R","cage_status":"caged","ended":"walltime"}`),
		frame(t, "events", "run.cage",
			`{"run_id":"R","cage_status":"caged","found":[{"kind":"name","path":"/p/.envrc","text":"./.envrc was `+
				`made.\u001b[2J"}]}`),
		frame(t, "events", "run.cage", `{"run_id":"R","cage_status":"uncaged"}`),
		frame(t, "output", "message.retract", `{"message_id":"M","step":1,"reason":"It broke\u001b[2J off."}`),
		frame(t, "events", "compaction.completed",
			`{"run_id":"R","agent_path":"primary","superseded_count":12,"after_estimate":20000}`),
		frame(t, "events", "compaction.failed",
			`{"run_id":"R","agent_path":"primary","attempted_strategy":"summarize","fallback_strategy":"drop",`+
				`"reason":"The summary was cut\u001b[2J off."}`),
		frame(t, "events", "compaction.noop", `{"run_id":"R","agent_path":"primary","reason":"Nothing may be dropped."}`),
		frame(t, "events", "compaction.noop", `{"run_id":"other","reason":"Another run."}`),
		frame(t, "events", "run.retry", `{"error":{"code":"provider_rate_limited","message":"Slow down."},"delay_ms":1500}`),
		frame(t, "output", "message.end",
			`{"stop_reason":"length","usage":{"input":1,"cache_read":2,"output":3},"stats":{"cost":{"total":0.5}}}`),
		frame(t, "events", "run.ended", `{"run_id":"other","outcome":"failed"}`),
	} {
		if over, _ := p.frame(f, "R"); over {
			t.Fatalf("%s ended the run", f.Raw)
		}
	}
	if strings.Contains(progress.String(), "b.example") {
		t.Error("what was allowed is shown as well")
	}
	over, outcome := p.frame(frame(
		t,
		"events",
		"run.ended",
		`{"run_id":"R","outcome":"failed","error":{"code":"interrupted","message":"It broke `+
			`off.","details":{"reason":"The line was cut."}}}`,
	), "R")
	if !over || outcome != "failed" {
		t.Errorf("the end gave %v %q", over, outcome)
	}
	if got := out.String(); got != "Hello\x1b[2J\u202e\n" {
		t.Errorf("stdout: %q", got)
	}
	for _, want := range []string{
		"the conversation was shortened: 12 messages gave way, about 20000 tokens stay",
		`! the conversation was not shortened by summarize, so drop is used: The summary was cut\x1b[2J off.`,
		"! the conversation could not be shortened: Nothing may be dropped.",
		"model p:m (rehearsal: a script plays the model)", "→ file.read path=\"a b\"",
		"✗ file.read It is not there. (file_not_found)",
		`! the answer broke off, so the text above it counts no more: It broke\x1b[2J off.`,
		"retrying in 1.5 s: Slow down. (provider_rate_limited)", "3 tokens in, 3 out, $0.5000, stopped at the output limit",
		"failed: It broke off. The line was cut. (interrupted)",
		"caged (userns): fs rw project:/", "  best effort: Memory is watched.",
		"! refused: a.example:443 (3 times): No rule allows it.",
		"  ! Not searched: the deepest folders.", "! the cage ended: walltime",
		"! no cage: kaged runs with --no-sandbox, so the agent's commands have your rights",
	} {
		if !strings.Contains(progress.String(), want+"\n") {
			t.Errorf("stderr lacks %q:\n%s", want, progress.String())
		}
	}
}

// Agents below the root are printed indented by their depth in the tree: a line for the start, each tool and the end of
// each, with outcome and cost, for any order of frames. Lines about their cages and approvals have their names.
func TestPrinterTree(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	p := newPrinter(&out, &progress, false)
	for _, f := range []client.Frame{
		frame(t, "events", "run.cage",
			`{"run_id":"R","invocation_id":"B","agent_path":"primary.subagents.tester","cage_status":"caged","tier":"userns",`+
				`"policy":"fs ro project:/"}`),
		frame(t, "output", "subagent.start",
			`{"invocation_id":"A","parent_invocation_id":null,"run_id":"R","name":"writer",`+
				`"agent_path":"primary.subagents.writer"}`),
		frame(t, "output", "subagent.start",
			`{"invocation_id":"B","parent_invocation_id":null,"run_id":"R","name":"tester",`+
				`"agent_path":"primary.subagents.tester"}`),
		frame(t, "output", "subagent.start",
			`{"invocation_id":"C","parent_invocation_id":"B","run_id":"R","name":"helper\u001b[2J","agent_path":"x"}`),
		frame(t, "output", "subagent.output", `{"invocation_id":"A","stream":"stdout","kind":"text","text":"Private."}`),
		frame(t, "output", "subagent.tool_call", `{"invocation_id":"C","id":"1","name":"file.read","input":{"path":"a.go"}}`),
		frame(t, "output", "subagent.tool_result",
			`{"invocation_id":"C","tool_call_id":"1","name":"file.read","output":"package a","is_error":false}`),
		frame(t, "output", "subagent.retract", `{"invocation_id":"A","step":1,"reason":"It broke off."}`),
		frame(t, "events", "approval.requested",
			`{"run_id":"R","invocation_id":"A","approval_id":"Q","subject":{"tool":"shell.bash",`+
				`"agent_path":"primary.subagents.writer","command":"make","reasons":["Why."]}}`),
		frame(t, "output", "subagent.end",
			`{"invocation_id":"C","exit":130,"outcome":"cancelled","steps":1,"usage":{"input":0,"output":0},"cost_usd":null}`),
		frame(t, "output", "subagent.end",
			`{"invocation_id":"A","exit":0,"outcome":"completed","steps":2,"usage":{"input":7,"cache_read":3,"output":5},`+
				`"cost_usd":0.25,"files_changed":["a.go"]}`),
		frame(t, "output", "subagent.end",
			`{"invocation_id":"B","exit":1,"outcome":"failed","error":{"code":"interrupted","message":"No."},"steps":3,`+
				`"cost_usd":null}`),
		frame(t, "output", "subagent.end", `{"invocation_id":"other","exit":0,"outcome":"completed"}`),
	} {
		p.frame(f, "R")
	}
	want := []string{
		"  primary.subagents.tester: caged (userns): fs ro project:/",
		"  writer: starts (primary.subagents.writer)",
		"  tester: starts (primary.subagents.tester)",
		`    helper\x1b[2J: starts (x)`,
		`    helper\x1b[2J: → file.read path=a.go`,
		`    helper\x1b[2J: ✓ file.read package a`,
		"  writer: ! the answer broke off and is asked for again: It broke off.",
		"  writer: ? shell.bash needs approval: \"make\": Why.",
		`    helper\x1b[2J: cancelled (1 step)`,
		"  writer: completed (2 steps, 10 tokens in, 5 out, $0.2500, 1 file changed)",
		"  tester: failed: No. (interrupted) (3 steps)",
	}
	if got := progress.String(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("stderr:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	if out.Len() != 0 {
		t.Errorf("stdout has %q", out.String())
	}
}

// With --json every frame except the socket's own frames is printed as a line, unchanged.
func TestPrinterJSON(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	p := newPrinter(&out, &progress, true)
	p.frame(frame(t, "control", "pong", `{}`), "R")
	delta := frame(t, "output", "message.delta", `{"kind":"text","delta":"x"}`)
	p.frame(delta, "R")
	if out.String() != string(delta.Raw)+"\n" || progress.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", out.String(), progress.String())
	}
}

// A text for one line contains no line break.
func TestBrief(t *testing.T) {
	t.Parallel()
	if got := kit.Brief("a\n  b\x1b[31m\u0085é\u202e\xff", 100); got != `a b\x1b[31m\u0085é\u202e\xff` {
		t.Errorf("brief = %q", got)
	}
	if got := kit.Brief(strings.Repeat("é", 10), 3); got != "ééé…" {
		t.Errorf("brief = %q", got)
	}
}

// The input and the result of a call are printed in short form; other data is unchanged.
func TestOutline(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"command":"go test ./..."}`:                                 `command="go test ./..."`,
		`{"path":"a.go","limit":3,"all":true,"x":false,"y":null}`:     "path=a.go limit=3 all=true",
		`{"stdout":"ok\n\nmore \u001b[2J","stderr":"","exit_code":0}`: `stdout="ok more \x1b[2J" exit_code=0`,
		`{"files":["a","b"],"none":[],"in":{"a": 1}}`:                 `files=["a","b"] in={"a":1}`,
		`{"error":{"code":"x","message":"No."}}`:                      "No. (x)",
		`{"new":"x y","path":"a.go"}`:                                 `path=a.go new="x y"`,
		`{"error":"a text"}`:                                          `error="a text"`,
		`{}`:                                                          "",
		`[1, 2]`:                                                      "[1, 2]",
		`{"cut off`:                                                   `{"cut off`,
		"plain\ntext":                                                 "plain text",
	} {
		if got := kit.Outline(raw, 100); got != want {
			t.Errorf("outline(%s) = %q, want %q", raw, got, want)
		}
	}
	if got := kit.Outline(`{"path":"`+strings.Repeat("é", 200)+`"}`, 10); got != "path=ééééé…" {
		t.Errorf("a long one: %q", got)
	}
}

// A result of kaged.todo is printed as its checklist, cut to a dozen lines, with control characters in texts of agents
// removed.
func TestPrinterShowsChecklists(t *testing.T) {
	t.Parallel()
	result := func(markdown string, statuses ...string) string {
		todos := []map[string]string{}
		for _, s := range statuses {
			todos = append(todos, map[string]string{"status": s})
		}
		output, _ := json.Marshal(map[string]any{"todos": todos, "markdown": markdown})
		payload, _ := json.Marshal(map[string]any{"tool_call_id": "1", "name": "kaged.todo", "output": string(output)})
		return string(payload)
	}
	for name, tt := range map[string]struct{ payload, want string }{
		"some": {
			result("- [>] Write tests\n  → use rapid\n- [x] Look \x1b[2J", "in_progress", "completed", "abandoned"),
			"✓ kaged.todo 1 of 2 done\n  - [>] Write tests\n    → use rapid\n  - [x] Look \\x1b[2J\n",
		},
		"none": {result(""), "✓ kaged.todo 0 of 0 done\n"},
		"many": {
			result(strings.TrimSuffix(strings.Repeat("- [ ] a\n", 14), "\n"), "pending"),
			"✓ kaged.todo 0 of 1 done\n" + strings.Repeat("  - [ ] a\n", 12) + "  and 2 lines more\n",
		},
		"another tool": {
			`{"tool_call_id":"1","name":"file.read","output":"{\"markdown\":\"x\"}"}`, "✓ file.read markdown=x\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, progress bytes.Buffer
			p := newPrinter(&out, &progress, false)
			p.frame(frame(t, "output", "message.tool_result", tt.payload), "R")
			if got := progress.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

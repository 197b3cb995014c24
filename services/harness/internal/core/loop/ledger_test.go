package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// After several compactions by drop, the next request still holds the early facts word for word: changed files,
// failed commands, decisions and open todos.
func TestTheLedgerOutlivesCompactions(t *testing.T) {
	t.Parallel()
	var facts []string
	var plays []play
	b := newBench(t)
	note := func(kind, text string) contract.Record {
		return contract.Record{Type: contract.NoteTaken, Payload: map[string]any{"kind": kind, "text": text}}
	}
	var records []contract.Record
	for i := range 10 {
		decision, path := fmt.Sprintf("decision %d: keep the parser in file%d.go", i, i), fmt.Sprintf("pkg/file%d.go", i)
		command := fmt.Sprintf("go test ./pkg/p%d", i)
		records = append(records, note("decision", decision),
			contract.Record{Type: contract.FileEdited, Payload: map[string]any{"path": path, "sha256": strings.Repeat("a", 64)}},
			contract.Record{Type: "shell.executed", Payload: map[string]any{"command": command, "exit_code": 1}})
		facts = append(facts, decision, path, "`"+command+"` exit 1")
	}
	for i := range records {
		plays = append(plays, wants(call(fmt.Sprint("n", i), "file.read", fmt.Sprintf(`{"path":"n%d"}`, i))))
	}
	const more = 60
	for i := range more {
		plays = append(plays, wants(call(fmt.Sprint("r", i), "file.read", fmt.Sprintf(`{"path":"r%d"}`, i))))
	}
	b.model.answers = append(plays, says("done"))
	n := 0
	b.tools.run["file.read"] = func(_ context.Context, in string) (string, error) {
		b.tools.records = map[string]contract.Record{"file.read": {Type: "other"}}
		if n < len(records) {
			b.tools.records["file.read"] = records[n]
		}
		n++
		return strings.Repeat("word ", 300) + in, nil
	}
	b.deps.Prices = sized32{}
	b.start.MaxSteps, b.start.MaxOutputTokens, b.start.MessageID = 200, 400, "m2"
	b.start.Sources = []contract.Source{{MessageID: "m1"}}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	completed := 0
	for _, c := range b.compactions() {
		if c.Phase == contract.CompactionCompleted {
			completed++
		}
	}
	last := b.model.requests[len(b.model.requests)-1]
	text := ""
	for _, m := range last.Messages {
		if m.Role == llm.RoleSystem {
			text += m.Blocks[0].Text.Text
		}
	}
	for _, fact := range facts {
		if !strings.Contains(text, fact) {
			t.Errorf("%q is lost", fact)
		}
	}
	if completed < 3 {
		t.Errorf("%d compactions, want at least 3", completed)
	}
	seq := int64(0)
	for _, f := range of[contract.ToolFinished](b.sink) {
		for _, e := range f.Ledger {
			if seq++; e.Seq != seq || e.Agent != "primary" || e.Step == 0 {
				t.Fatalf("entry %+v, want number %d", e, seq)
			}
		}
	}
}

// sized32 prices and sizes every model with a window of 12,000 tokens.
type sized32 struct{ flat }

func (sized32) Window(llm.Target) int { return 12_000 }

// The result of kaged.note is the number of its ledger entry, which continues the session's numbers. A denied or
// failed call also has an entry.
func TestNotesAreNumbered(t *testing.T) {
	t.Parallel()
	b := newBench(t, wants(call("a", "kaged.note", `{}`)), wants(call("b", "shell.bash", `{}`)), says("done"))
	b.tools.run["kaged.note"] = func(context.Context, string) (string, error) { return `{"seq":0}`, nil }
	b.tools.records = map[string]contract.Record{
		"kaged.note": {Type: contract.NoteTaken, Payload: map[string]any{"kind": "todo", "text": "write tests"}},
	}
	b.start.Ledger = contract.Ledger{Seq: 41}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	if got := results(b.model.requests[2])[0].Content; got != `{"seq":42}` {
		t.Errorf("the agent reads %s", got)
	}
	finished := of[contract.ToolFinished](b.sink)
	if e := finished[0].Ledger; len(e) != 1 || e[0].Kind != contract.LedgerTodo || e[0].Text != "write tests" ||
		e[0].Seq != 42 {
		t.Errorf("entries %+v", e)
	}
	if finished[0].Result.Content != `{"seq":42}` {
		t.Errorf("clients read %s", finished[0].Result.Content)
	}
	failed := contract.LedgerOf("shell.bash", fault.New(fault.ShellSpawnFailed, "boom"),
		[]contract.Record{{Type: "tool.called", Agent: "primary"}})
	if len(failed) != 1 || failed[0].Kind != contract.LedgerFailed || failed[0].Text != "shell.bash: boom" {
		t.Errorf("failure %+v", failed)
	}
}

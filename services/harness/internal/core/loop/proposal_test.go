package loop

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

const proposing = "I looked.\n```todos\n- [ ] Write the tests\n- [ ] Logs are kept (criterion)\n```\n"

// proposed runs a root agent with a child that answers with a text, and returns the call's result as the root reads
// it.
func proposed(t *testing.T, f *family, auto bool, text string) map[string]any {
	t.Helper()
	scout := f.child(f.start.Agent, "scout", says(text))
	scout.AutoTodos = auto
	if fin := f.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("%+v", fin)
	}
	var read map[string]any
	if err := json.Unmarshal([]byte(results(f.model.requests[1])[0].Content), &read); err != nil {
		t.Fatal(err)
	}
	if read["text"] != text {
		t.Errorf("the root reads %q, want the proposal unmodified", read["text"])
	}
	return read
}

func atWork(t *testing.T) *family {
	t.Helper()
	f := newFamily(t, wants(asks("c1", "scout", "Look.")), says("Done."))
	f.start.Issue = 3
	f.start.Agent.Tools = append(f.start.Agent.Tools, "kaged.todo")
	return f
}

// A child is told how to propose todos, and a proposal reaches its parent unchanged. Without todo_review: auto only
// the root agent adds the todos. T-TODO-BUBBLE-02, -03, -06.
func TestProposalsAreReviewed(t *testing.T) {
	f := atWork(t)
	read := proposed(t, f, false, proposing)
	todos, _ := read["todos"].(map[string]any)
	if todos["count"] != 2.0 || todos["review"] != "review" || todos["origin_agent"] != "primary.subagents.scout" {
		t.Errorf("the root reads %v", read["todos"])
	}
	if len(f.tools.seen) != 0 {
		t.Errorf("unreviewed, %+v was called", f.tools.seen)
	}
	child := f.models["scout"].requests[0]
	if !slices.Contains(child.System, proposalText) || slices.Contains(f.model.requests[0].System, proposalText) {
		t.Errorf("the child is told %q, the root %q", child.System, f.model.requests[0].System)
	}
	for _, m := range child.Messages {
		if text := textOf(m.Blocks); text != "Look." {
			t.Errorf("the child is given %q, want what its parent forwards (T-TODO-BUBBLE-05)", text)
		}
	}
}

// With todo_review: auto the todos are added in the root agent's name before the root's next step, by one call for
// each kind, with the child as their origin. T-TODO-BUBBLE-04, -06.
func TestProposalsAreWrittenDown(t *testing.T) {
	f := atWork(t)
	var inputs []string
	f.tools.run["kaged.todo"] = func(_ context.Context, input string) (string, error) {
		inputs = append(inputs, input)
		return "{}", nil
	}
	read := proposed(t, f, true, proposing)
	todos := read["todos"].(map[string]any)
	if todos["review"] != "auto" || todos["count"] != 2.0 || todos["error"] != nil {
		t.Errorf("the root reads %v", todos)
	}
	want := []string{
		`{"action":"add","items":["Write the tests"],"kind":"step","origin_agent":"primary.subagents.scout"}`,
		`{"action":"add","items":["Logs are kept"],"kind":"criterion","origin_agent":"primary.subagents.scout"}`,
	}
	if !slices.Equal(inputs, want) {
		t.Errorf("wrote down %q, want %q", inputs, want)
	}
	for _, call := range f.tools.seen {
		if call.Context.Agent != "primary" || call.Context.Issue != 3 || call.Tool != "kaged.todo" {
			t.Errorf("called as %+v", call.Context)
		}
	}
	if f.tools.seen[0].CallID == f.tools.seen[1].CallID {
		t.Error("two calls have one id")
	}

	f = atWork(t)
	f.tools.run["kaged.todo"] = func(context.Context, string) (string, error) {
		return "", fault.New(fault.Unavailable, "The issues are away.")
	}
	read = proposed(t, f, true, proposing)
	if todos := read["todos"].(map[string]any); !strings.Contains(todos["error"].(string), "away") {
		t.Errorf("the root reads %v, want the failure", todos)
	}
}

// Without an issue, and for a child that fails, no todos are proposed.
func TestNoProposal(t *testing.T) {
	f := atWork(t)
	f.start.Issue = 0
	read := proposed(t, f, true, proposing)
	if read["todos"] != nil || slices.Contains(f.models["scout"].requests[0].System, proposalText) {
		t.Errorf("without an issue the root reads %v", read["todos"])
	}
	f = atWork(t)
	scout := f.child(f.start.Agent, "scout", fails(errors.New("boom")))
	scout.AutoTodos = true
	f.run(t.Context())
	if len(f.tools.seen) != 0 {
		t.Errorf("a child that failed wrote %+v down", f.tools.seen)
	}
}

// A proposal is the list in the last complete block. Other lines and blocks do not count, and its length is limited.
func TestProposalOf(t *testing.T) {
	for name, tt := range map[string]struct {
		text     string
		steps    []string
		criteria []string
	}{
		"empty":        {"", nil, nil},
		"text":         {"- [ ] not in a block", nil, nil},
		"another":      {"```go\n- [ ] a\n```", nil, nil},
		"open":         {"```todos\n- [ ] a\n", nil, nil},
		"last":         {"```todos\n- a\n```\n```todos\n- b\n```", []string{"b"}, nil},
		"last is open": {"```todos\n- a\n```\n```todos\n- b\n", []string{"a"}, nil},
		"marks": {
			" ```todos \n  - [ ] a  \r\n- b (criterion)\nc\n-\n- (criterion)\n```", []string{"a"}, []string{"b"},
		},
		"many": {"```todos\n" + strings.Repeat("- x\n", 500) + "```", slices.Repeat([]string{"x"}, maxProposed), nil},
	} {
		if p := proposalOf(tt.text); !slices.Equal(p.steps, tt.steps) || !slices.Equal(p.criteria, tt.criteria) {
			t.Errorf("%s: %q", name, p)
		}
	}
}

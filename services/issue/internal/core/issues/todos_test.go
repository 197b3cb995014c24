package issues

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
)

func list(items ...Todo) []Todo {
	for i := range items {
		items[i].Position, items[i].ID = i, items[i].Content
		if items[i].Status == "" {
			items[i].Status = Pending
		}
		if items[i].Kind == "" {
			items[i].Kind = Step
		}
	}
	return items
}

// The checklist marks todos in progress and completed ones, marks criteria, leaves out dropped todos, and has the notes
// of the todo in progress. T-TODO-05, T-TODO-24.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	got := Markdown(list(
		Todo{Content: "Implement auth module", Status: Working, Notes: []Note{{Text: "check tokens"}}},
		Todo{Content: "Write tests", Notes: []Note{{Text: "hidden"}}},
		Todo{Content: "All endpoints return 200", Kind: Criterion}, Todo{Content: "Dropped", Status: Abandoned},
		Todo{Content: "Read", Status: Completed},
	))
	want := "- [>] Implement auth module\n  → check tokens\n- [ ] Write tests\n" +
		"- [ ] All endpoints return 200 (criterion)\n- [x] Read"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A todo is named by its text, apart from case and surrounding spaces, or by a part that only this todo contains.
// Errors list the other todos. T-TODO-20, -21, -22, -25, -26; T-FM-17, T-FM-28.
func TestAddressing(t *testing.T) {
	t.Parallel()
	todos := list(Todo{Content: "Write tests"}, Todo{Content: "Auth module"}, Todo{Content: "Auth docs"},
		Todo{Content: "Old", Status: Abandoned},
		Todo{Content: "Twice", Status: Completed}, Todo{Content: "twice"})
	for content, want := range map[string]int{"  WRITE tests ": 0, "module": 1, "Twice": 5} {
		if got, err := addressed(todos, content); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", content, got, err, want)
		}
	}
	for content, want := range map[string]struct {
		code fault.Code
		says string
	}{
		"auth": {fault.TodoNotFound, "Auth module; Auth docs"}, "zzz": {fault.TodoNotFound, `"zzz"`},
		"Old":    {fault.TodoNotFound, "Old"},
		"task-1": {fault.ContentAddressingHint, "full text"}, "ID-42": {fault.ContentAddressingHint, "full text"},
		"tasks-1": {fault.TodoNotFound, "tasks-1"}, " ": {fault.InvalidParams, "content"},
	} {
		if _, err := addressed(todos, content); !errors.Is(err, want.code) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%q: got %v, want %v that says %q", content, err, want.code, want.says)
		}
	}
	if _, err := addressed(nil, "x"); !errors.Is(err, fault.TodoNotFound) || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty list: got %v", err)
	}
}

// After any sequence of actions at most one todo is in progress, all todos still exist, their positions are 0, 1, 2 and
// so on, agents have dropped no criterion, and completed todos have a time. T-TODO-07, -10, -12, -15, -16; T-FM-18.
func TestTodosProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var todos []Todo
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := slices.Clone(todos)
			kind := rapid.SampledFrom([]TodoKind{Step, Criterion}).Draw(t, "kind")
			content := ""
			if len(todos) > 0 {
				content = rapid.SampledFrom(todos).Draw(t, "todo").Content
			}
			w := Work{
				Action: rapid.SampledFrom([]Action{View, Set, Add, Start, Done, Drop, Jot}).Draw(t, "action"), Content: content,
				Text: "note",
				New:  NewTodos{Items: []string{rapid.StringMatching(`[a-z]{3,8}`).Draw(t, "item")}, Kind: kind},
			}
			after, _, err := w.apply(slices.Clone(todos), "agent:primary", 1)
			if err == nil {
				todos = after
			}
			if len(todos) < len(before) {
				t.Fatalf("%s lost a todo", w.Action)
			}
			working := 0
			for i, todo := range todos {
				if todo.Status == Working {
					working++
				}
				if todo.Position != i || (todo.Status == Completed) != (todo.CompletedAt != nil) {
					t.Fatalf("after %s: %+v at %d", w.Action, todo, i)
				}
				if todo.Kind == Criterion && todo.Status == Abandoned {
					t.Fatalf("%s dropped a criterion", w.Action)
				}
			}
			if working > 1 {
				t.Fatalf("%d todos are at work after %s", working, w.Action)
			}
		}
	})
}

// From every status an issue can go only to the statuses in the table. Other transitions fail with a sentence that
// lists the valid ones, and a transition fails without a comment if the table requires one. T-ISSUE-04, -05;
// T-ISSUE-TRANS-02, -03, -07; T-FM-15.
func TestEveryTransition(t *testing.T) {
	t.Parallel()
	legal := map[Status]string{
		Open: "triaged assigned in_progress resolved rejected", Triaged: "assigned in_progress resolved rejected",
		Assigned: "triaged in_progress resolved rejected", InProgress: "triaged assigned resolved rejected",
		Resolved: "reopened", Rejected: "reopened", Reopened: "triaged assigned in_progress resolved rejected",
	}
	for from, names := range legal {
		for _, to := range Statuses() {
			err := transition(7, from, to, "why")
			if slices.Contains(strings.Fields(names), string(to)) {
				if err != nil {
					t.Errorf("%s to %s: %v", from, to, err)
				}
				bare := transition(7, from, to, " \n\t")
				if needed := to == Resolved || to == Rejected; needed != errors.Is(bare, fault.ValidationFailed) {
					t.Errorf("%s to %s with a blank comment: %v", from, to, bare)
				}
				if to == Rejected && fault.From(bare).Msg != "Rejection requires an explanatory comment." {
					t.Errorf("got %q", fault.From(bare).Msg)
				}
				continue
			}
			if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), strings.ReplaceAll(names, " ", ", ")) {
				t.Errorf("%s to %s: got %v, want a conflict that says %s", from, to, err, names)
			}
		}
	}
}

// A resolved issue has the author and the time; reopening removes both. T-ISSUE-TRANS-04, -05, -06, -09.
func TestResolvedAndReopened(t *testing.T) {
	t.Parallel()
	out, updates, err := Change{Status: Resolved, Comment: "done"}.apply(Issue{Number: 1, Status: Open, Version: 1},
		"agent:primary", 5)
	if err != nil || *out.Issue.ResolvedAt != 5 || *out.Issue.ResolvedBy != "agent:primary" || len(updates) != 2 ||
		out.From != Open {
		t.Fatal(out, updates, err)
	}
	if out, _, err = (Change{Status: Reopened}).apply(out.Issue, "ada", 6); err != nil || out.Issue.ResolvedAt != nil ||
		out.Issue.ResolvedBy != nil {
		t.Error(out, err)
	}
}

package e2e_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// worker is an agent that takes issue #1, writes its todos and works through them, one call per turn. A turn is
// answered when its token has arrived.
type worker struct {
	calls []fakellm.Action
	turns chan struct{}
}

func newWorker() *worker {
	todo := func(input string) fakellm.Action { return fakellm.Tool("kaged.todo", input) }
	return &worker{turns: make(chan struct{}), calls: []fakellm.Action{
		fakellm.Tool("kaged.issue", `{"action":"transition","number":1,"to":"in_progress"}`),
		todo(`{"action":"set","items":["Reproduce it","Mend it"]}`),
		todo(`{"action":"add","items":["It stays mended"],"kind":"criterion"}`),
		todo(`{"action":"start","content":"Reproduce it"}`),
		todo(`{"action":"done","content":"Reproduce it"}`),
		fakellm.Tool("file.read", `{"path":"go.mod"}`),
		todo(`{"action":"done","content":"mend it"}`),
		todo(`{"action":"done","content":"stays mended"}`),
		fakellm.Tool("kaged.issue", `{"action":"comment","number":1,"body":"Mended."}`),
	}}
}

func (w *worker) answer(r *fakellm.Request) fakellm.Step {
	<-w.turns
	if turn := r.Turns(); turn < len(w.calls) {
		return fakellm.Step{w.calls[turn]}
	}
	return fakellm.Step{fakellm.Say("Mended.")}
}

// issueSeen is an issue in a person's view.
type issueSeen struct {
	Number     int64
	Status     string
	ResolvedBy string `json:"resolved_by"`
	Updates    []struct{ Author, Kind, Body string }
}

// board is a person's view of an issue, reloaded when a frame reports a change.
type board struct {
	t *testing.T
	*kagedtest.Session
}

func (b board) path(rest string) string { return "/api/v1/projects/" + b.Project + "/issues" + rest }

func (b board) issue() issueSeen { return kagedtest.Get[issueSeen](b.t, b.Client, b.path("/1")) }

// todos returns the todos in the form "status content".
func (b board) todos() (list []string) {
	for _, todo := range kagedtest.Get[struct {
		Items []struct{ Status, Content string }
	}](b.t, b.Client, b.path("/1/todos")).Items {
		list = append(list, todo.Status+" "+todo.Content)
	}
	return list
}

// sees waits for the frame of a change and fails the test unless the issue then has the status and the todos.
func (b board) sees(kind, status string, todos ...string) {
	b.t.Helper()
	var p struct {
		ProjectID string `json:"project_id"`
		Number    int64
	}
	if kagedtest.Payload(b.t, b.Until(b.t, kind), &p); p.ProjectID != b.Project || p.Number != 1 {
		b.t.Errorf("%s tells of %+v", kind, p)
	}
	if got := b.issue().Status; got != status {
		b.t.Errorf("after %s the issue is %s, want %s", kind, got, status)
	}
	if got := b.todos(); strings.Join(got, ", ") != strings.Join(todos, ", ") {
		b.t.Errorf("after %s the todos are %q, want %q", kind, got, todos)
	}
}

// A person creates an issue, and an agent takes it and works through its todos. kaged is killed meanwhile, and the
// agent continues by itself. The person sees each change live and closes the issue.
func TestAnIssueIsWorkedThrough(t *testing.T) {
	t.Parallel()
	llm, agent := fakellm.Start(t), newWorker()
	llm.Handle(agent.answer)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	file := filepath.Join(".kaged", "project.yaml")
	yaml := kagedtest.Read(t, dir, file)
	kagedtest.Write(t, dir, file, strings.Replace(yaml, "primary:\n", "primary:\n  on_crash: resume\n", 1))
	daemon := w.Up(t, nil)
	b := board{t, kagedtest.Open(t, w.SignIn(t), dir)}

	kagedtest.Post[any](t, b.Client, b.path(""), map[string]any{"title": "It is broken", "body": "Since Monday."})
	b.sees("issue.created", "open")
	change := map[string]any{"issue_number": 1}
	if err := b.Client.Do(t.Context(), http.MethodPut, "/api/v1/sessions/"+b.ID, change, nil); err != nil {
		t.Fatal(err)
	}
	b.Send(t, "Take issue #1.")
	turn := func() { agent.turns <- struct{}{} }
	turn()
	b.sees("issue.updated", "in_progress")
	turn()
	b.sees("issue.updated", "in_progress", "pending Reproduce it", "pending Mend it")
	turn()
	b.sees("issue.updated", "in_progress", "pending Reproduce it", "pending Mend it", "pending It stays mended")
	turn()
	b.sees("issue.updated", "in_progress", "in_progress Reproduce it", "pending Mend it", "pending It stays mended")
	turn()
	b.sees("issue.updated", "in_progress", "completed Reproduce it", "pending Mend it", "pending It stays mended")
	turn()
	kagedtest.Eventually(t, "the agent asks for the next turn", func() bool { return len(llm.Requests()) == 7 })

	daemon.Kill()
	b.UntilLost(t)
	w.Up(t, nil)
	b.Client = w.SignIn(t)
	b.Attach(t, b.Seen())
	b.Until(t, "run.started")
	turn() // of the request that was lost with the daemon
	turn()
	b.sees("issue.updated", "in_progress", "completed Reproduce it", "completed Mend it", "pending It stays mended")
	turn()
	done := []string{"completed Reproduce it", "completed Mend it", "completed It stays mended"}
	b.sees("issue.updated", "in_progress", done...)
	turn()
	b.sees("issue.updated", "in_progress", done...)
	turn()
	var ended struct{ Outcome string }
	if kagedtest.Payload(t, b.Until(t, "run.ended"), &ended); ended.Outcome != "completed" {
		t.Errorf("the run %s", ended.Outcome)
	}
	change = map[string]any{"status": "resolved", "comment": "Looks good."}
	if err := b.Client.Do(t.Context(), http.MethodPatch, b.path("/1"), change, nil); err != nil {
		t.Fatal(err)
	}
	b.sees("issue.updated", "resolved", done...)
	checkReminders(t, llm.Requests())
	b.checkHistory()
}

// checkReminders checks that the agent gets a reminder of its open todos at each turn without a result that has them,
// even after the crash.
func checkReminders(t *testing.T, requests []fakellm.Request) {
	t.Helper()
	var reminded []int
	for _, r := range requests {
		if strings.Contains(string(r.Body), "Open todos of issue #1") {
			reminded = append(reminded, r.Turns())
		}
	}
	if !slices.Equal(reminded, []int{6, 6}) {
		t.Errorf("reminded at the turns %d, want 6 before the crash and 6 after it", reminded)
	}
}

// checkHistory checks that each change is recorded once, with its author.
func (b board) checkHistory() {
	b.t.Helper()
	var got []string
	for _, u := range b.issue().Updates {
		author, _, _ := strings.Cut(u.Author, ":")
		if author != "agent" {
			author = "person"
		}
		got = append(got, author+" "+u.Kind+" "+u.Body)
	}
	want := []string{
		"agent status_change ", "agent comment Mended.", "person status_change ", "person comment Looks good.",
	}
	if text, _ := json.Marshal(got); strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.t.Errorf("the history is %s", text)
	}
}

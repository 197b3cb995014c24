package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// hourStep is a line of testdata/hour.jsonl, the record of a session of an hour's work: a message of the operator, or
// an answer of the model.
type hourStep struct {
	Operator, Say, Tool string
	Input               json.RawMessage
}

// readHour returns the record as the operator's messages and the model's answers.
func readHour(t *testing.T) (wishes []string, answers []hourStep) {
	t.Helper()
	data, err := os.ReadFile("testdata/hour.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var s hourStep
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Operator != "" {
			wishes = append(wishes, s.Operator)
		} else {
			answers = append(answers, s)
		}
	}
	return wishes, answers
}

// hourModel plays the model's answers of the record, one for each request.
type hourModel struct {
	mu      sync.Mutex
	answers []hourStep
	played  int
}

func (m *hourModel) answer(*fakellm.Request) fakellm.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.played == len(m.answers) {
		return fakellm.Step{fakellm.Say("I remember.")}
	}
	s := m.answers[m.played]
	m.played++
	if s.Tool == "" {
		return fakellm.Step{fakellm.Say(s.Say)}
	}
	return fakellm.Step{fakellm.Tool(s.Tool, string(s.Input))}
}

// After three compactions of a recorded hour of work, the next request has more than 30 facts word for word: the files
// that were changed with their hashes, the commands that failed with their exit codes, what the operator denied, what
// was decided, tried and left to do. The tools run for real. The facts are read from what happened: from the files on
// disk, the results of the commands, and the operator's answers.
func TestFactsOfAnHourOutliveThreeCompactions(t *testing.T) {
	t.Parallel()
	wishes, answers := readHour(t)
	provider := fakellm.Start(t)
	provider.Handle((&hourModel{answers: answers}).answer)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(provider, "anthropic")+
		"[[providers.fake.models]]\nid = \"claude-sonnet-4-5\"\ncontext_window = 32000\nmax_output = 4000\n")
	dir := w.Project(t)
	project := kagedtest.Read(t, dir, ".kaged/project.yaml")
	kagedtest.Write(t, dir, ".kaged/project.yaml", strings.Replace(regexp.MustCompile(`max_steps: \d+`).ReplaceAllString(
		project, "max_steps: 100"), "primary:\n", "primary:\n  include_tool_results_in_context: true\n", 1))
	for i := range 50 {
		kagedtest.Write(t, dir, fmt.Sprintf("docs/minutes-%02d.txt", i+1), minutes(i+1))
	}
	w.Up(t, databaseEnv(t))
	s := kagedtest.Open(t, w.SignIn(t), dir)
	h := &happened{dir: dir, commands: map[string]string{}, changed: map[string]bool{}}
	for _, wish := range wishes {
		h.follow(t, s, wish)
	}
	compactions := 0
	for _, f := range s.Frames {
		if f.Type == "compaction.completed" {
			compactions++
		}
	}
	if outcome := s.Run(t, "What did you do in this hour?"); outcome != "completed" || compactions < 3 {
		t.Fatalf("the last run %s after %d compactions", outcome, compactions)
	}
	all := provider.Requests()
	_, note, _ := strings.Cut(textOf(all[len(all)-1].Messages), "kaged's ledger of this session")
	facts := h.facts(t)
	if len(facts) < 30 {
		t.Errorf("only %d facts: %q", len(facts), facts)
	}
	for _, fact := range facts {
		if !strings.Contains(note, fact) {
			t.Errorf("%q is forgotten", fact)
		}
	}
	if t.Failed() {
		t.Log(note)
	}
}

// minutes is a page of text that differs from the other pages.
func minutes(n int) string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "Minute %d of meeting %d: the operator asks about item %d, and the answer is put off.\n", i, n, n*i)
	}
	return b.String()
}

// happened is what a session did, by its frames.
type happened struct {
	dir      string
	changed  map[string]bool   // files
	commands map[string]string // the last exit code of each command
	notes    []string
	denied   []string // the tools' messages
}

// follow posts a message, denies every question, and notes what happens until the run ends.
func (h *happened) follow(t *testing.T, s *kagedtest.Session, wish string) {
	t.Helper()
	s.Send(t, wish)
	calls := map[string]hourStep{}
	for ended := false; ; {
		f := s.Next(t)
		var p struct {
			ID, Name, Output, Outcome, State string
			Input                            json.RawMessage
			ToolCallID                       string `json:"tool_call_id"`
			ApprovalID                       string `json:"approval_id"`
			IsError                          bool   `json:"is_error"`
		}
		kagedtest.Payload(t, f, &p)
		switch f.Type {
		case "approval.requested":
			kagedtest.Post[struct{}](t, s.Client, "/api/v1/sessions/"+s.ID+"/approvals/"+p.ApprovalID,
				map[string]any{"decision": "deny", "comment": "these are mine"})
		case "message.tool_call":
			calls[p.ID] = hourStep{Tool: p.Name, Input: p.Input}
		case "message.tool_result":
			h.note(t, calls[p.ToolCallID], p.Output, p.IsError)
		case "run.ended":
			if p.Outcome != "completed" {
				t.Fatalf("a run %s", p.Outcome)
			}
			ended = true
		case "session.state":
			if ended && p.State == "idle" {
				return
			}
		}
	}
}

// note takes down the outcome of a call.
func (h *happened) note(t *testing.T, call hourStep, output string, failed bool) {
	t.Helper()
	if call.Tool == "file.read" || call.Tool == "file.list" {
		return
	}
	var in struct{ Path, Command, Text string }
	var out struct {
		ExitCode int `json:"exit_code"`
		Error    struct{ Code, Message string }
	}
	if json.Unmarshal(call.Input, &in) != nil || json.Unmarshal([]byte(output), &out) != nil {
		t.Fatalf("%s %s: %s", call.Tool, call.Input, output)
	}
	switch {
	case failed && out.Error.Code == "approval_denied":
		h.denied = append(h.denied, "denied: "+call.Tool+": "+out.Error.Message)
	case failed:
		t.Errorf("%s %s: %s", call.Tool, call.Input, output)
	case call.Tool == "file.create" || call.Tool == "edit.text":
		h.changed[in.Path] = true
	case call.Tool == "shell.bash":
		h.commands[in.Command] = fmt.Sprintf("`%s` exit %d", in.Command, out.ExitCode)
		if out.ExitCode == 0 {
			delete(h.commands, in.Command)
		}
	case call.Tool == "kaged.note":
		h.notes = append(h.notes, in.Text)
	}
}

// facts returns what has to be remembered. Files are hashed anew.
func (h *happened) facts(t *testing.T) []string {
	t.Helper()
	facts := append(append([]string{}, h.notes...), h.denied...)
	for path := range h.changed {
		data, err := os.ReadFile(filepath.Join(h.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		facts = append(facts, fmt.Sprintf("%s (sha256 %s)", path, hex.EncodeToString(sum[:])[:12]))
	}
	for _, fact := range h.commands {
		facts = append(facts, fact)
	}
	return facts
}

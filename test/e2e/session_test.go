package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// repair returns a model's work on examples/wordcount: it runs the tests, reads, edits, and runs them again.
func repair() []fakellm.Step {
	return []fakellm.Step{
		{
			fakellm.GotSystem("You repair Go code"), fakellm.GotTool("shell.bash"), fakellm.Think("I should look first."),
			fakellm.Say("Let me look."),
			fakellm.Tool("search.grep", `{"pattern":"strings.Trim","output_mode":"content"}`),
			fakellm.Tool("file.read", `{"path":"wordcount.go"}`),
			fakellm.Tool("shell.bash", `{"command":"go test ./..."}`),
		},
		{
			fakellm.GotResult("FAIL"), fakellm.Say("Found it."),
			fakellm.Tool("edit.text", `{"path":"wordcount.go","old_string":"strings.Trim(field, `+
				`\".,\")","new_string":"strings.Trim(field, \".,;!?\\\"-\")"}`),
			fakellm.Tool(
				"edit.text", `{"path":"wordcount.go","old_string":"\t\ttimes[normalize(field)]++","new_string":"\t\tif w := `+
					`normalize(field); w != \"\" {\n\t\t\ttimes[w]++\n\t\t}"}`,
			),
		},
		{fakellm.GotResult("replacements"), fakellm.Tool("shell.bash", `{"command":"go test ./..."}`)},
		{fakellm.GotResult("ok"), fakellm.Say("The tests pass.")},
	}
}

// An agent repairs a failing test over each provider's wire format, and all its results exist afterwards: the files,
// the frames in order, the message with its parts, the run with its steps, and the record.
func TestAnAgentRepairsAFailingTest(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"anthropic", "google", "openai", "openai-chat"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			llm.Script(fakellm.Steps(repair()...))
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, driver))
			w.Up(t, databaseEnv(t))
			dir := w.Project(t)
			s := kagedtest.Open(t, w.SignIn(t), dir)

			if outcome := s.Run(t, "fix the failing test"); outcome != "completed" {
				t.Fatalf("the run %s: %s", outcome, s.Frames[len(s.Frames)-1].Raw)
			}
			if out, err := goTest(t, dir); err != nil {
				t.Errorf("the test still fails:\n%s", out)
			}
			s.Contiguous(t)
			checkFrames(t, s)
			checkMessages(t, s)
			checkRecord(t, s)
			checkRequests(t, s, llm)
		})
	}
}

func goTest(t *testing.T, dir string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// checkFrames checks that one message.start and one message.end enclose the model's output, that each call has its
// result, and that the session went from running to idle.
func checkFrames(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	var kinds []string
	var text strings.Builder
	calls, states := map[string]string{}, []string{}
	for _, f := range s.Frames {
		var p struct {
			Delta, Kind, State, Provider, Model, Name, ID string
			ToolCallID                                    string `json:"tool_call_id"`
			StopReason                                    string `json:"stop_reason"`
			Usage                                         struct{ Input, Output int64 }
			Stats                                         struct{ Duration float64 }
		}
		kagedtest.Payload(t, f, &p)
		switch f.Type {
		case "message.start":
			if p.Provider != "fake" || p.Model != "claude-sonnet-4-5" {
				t.Errorf("message.start names %s:%s", p.Provider, p.Model)
			}
		case "message.delta":
			if p.Kind == "text" {
				text.WriteString(p.Delta)
			}
			continue
		case "message.tool_call":
			calls[p.ID] = p.Name
			continue
		case "message.tool_result":
			if calls[p.ToolCallID] == "" {
				t.Errorf("a result answers no call: %s", f.Raw)
			}
			delete(calls, p.ToolCallID)
			continue
		case "message.tool_output":
			continue
		case "session.state":
			states = append(states, p.State)
		case "message.end":
			if p.StopReason != "stop" || p.Usage.Output == 0 || p.Stats.Duration <= 0 {
				t.Errorf("message.end is %s", f.Raw)
			}
		}
		kinds = append(kinds, f.Type)
	}
	slices.Sort(kinds)
	if want := []string{
		"message.end", "message.start", "run.ended", "run.started", "session.state", "session.state", "welcome",
	}; !slices.Equal(slices.DeleteFunc(kinds, func(k string) bool { return k == "welcome" }), want[:6]) {
		t.Errorf("frames besides deltas and tools: %v", kinds)
	}
	if !slices.Equal(states, []string{"running", "idle"}) {
		t.Errorf("states: %v", states)
	}
	if len(calls) > 0 {
		t.Errorf("calls without a result: %v", calls)
	}
	if got := text.String(); got != "Let me look.Found it.The tests pass." {
		t.Errorf("the deltas say %q", got)
	}
}

type messagePage struct {
	Items []struct {
		ID, Role, Content string
		Parts             []struct {
			Type, Text, Name, Output string
			Input                    any
			IsError                  bool `json:"is_error"`
		}
		Metadata struct {
			Provider, Model string
			StopReason      string `json:"stop_reason"`
		}
	}
	HasMore bool `json:"has_more"`
}

func checkMessages(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
	if len(page.Items) != 2 || page.Items[0].Role != "operator" || page.Items[1].Role != "primary" {
		t.Fatalf("messages: %+v", page)
	}
	m := page.Items[1]
	if m.Content != "Let me look.\n\nFound it.\n\nThe tests pass." || m.Metadata.Provider != "fake" ||
		m.Metadata.StopReason != "stop" {
		t.Errorf("the message: %+v", m)
	}
	count := map[string]int{}
	for _, p := range m.Parts {
		count[p.Type]++
		if p.Type == "tool_result" && p.IsError {
			t.Errorf("%s failed: %s", p.Name, p.Output)
		}
	}
	if count["tool_call"] != 6 || count["tool_result"] != 6 || count["text"] != 3 {
		t.Errorf("parts: %v", count)
	}
	runs := kagedtest.Get[struct {
		Items []struct {
			ID, State string
			Steps     int
			TokensOut int64 `json:"tokens_out"`
		}
	}](t, s.Client, "/api/v1/sessions/"+s.ID+"/runs")
	if len(runs.Items) != 1 || runs.Items[0].State != "completed" || runs.Items[0].Steps != 4 ||
		runs.Items[0].TokensOut == 0 {
		t.Errorf("runs: %+v", runs)
	}
}

// checkRecord checks that every call is in the audit log, and that the recorded requests have exactly the bodies sent
// to the model, once.
func checkRecord(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	type page struct {
		Items []struct {
			EventType string          `json:"event_type"`
			Payload   json.RawMessage `json:"payload"`
		}
	}
	tools := kagedtest.Get[page](t, s.Client, "/api/v1/audit?session="+s.ID+"&event_type=tool.*&limit=200")
	count := map[string]int{}
	for _, e := range tools.Items {
		count[e.EventType]++
	}
	if count["tool.called"] != 6 {
		t.Errorf("tool records: %v", count)
	}
	requests := kagedtest.Get[page](t, s.Client, "/api/v1/audit?session="+s.ID+
		"&event_type=agent.pre_generation_step&limit=200")
	if len(requests.Items) != 4 {
		t.Errorf("%d recorded requests, want 4", len(requests.Items))
	}
	asked := 0
	for _, e := range requests.Items {
		asked += strings.Count(string(e.Payload), "fix the failing test")
	}
	first := kagedtest.Get[page](t, s.Client, "/api/v1/audit?session="+s.ID+"&event_type=agent.pre_generation&limit=200")
	for _, e := range first.Items {
		asked += strings.Count(string(e.Payload), "fix the failing test")
	}
	if asked != 1 {
		t.Errorf("the operator's message is recorded %d times, want once", asked)
	}
}

// checkRequests checks that the record has the hash of each request's bytes as the model received them, in order, and
// of the corresponding recorded request (H-PIPE-01).
func checkRequests(t *testing.T, s *kagedtest.Session, llm *fakellm.Server) {
	t.Helper()
	type page struct {
		Items []struct {
			Payload struct {
				Hash string
				Body string `json:"body_sha256"`
				Size int    `json:"body_bytes"`
			}
		}
	}
	read := func(event string) page {
		p := kagedtest.Get[page](t, s.Client, "/api/v1/audit?session="+s.ID+"&event_type="+event+"&limit=200")
		slices.Reverse(p.Items) // the newest came first
		return p
	}
	left, recorded := read("agent.request").Items, read("agent.pre_generation_step").Items
	sent := llm.Requests()
	if len(left) != len(sent) || len(recorded) != len(sent) {
		t.Fatalf("of %d requests %d are recorded before, and %d when they left", len(sent), len(recorded), len(left))
	}
	for i, r := range sent {
		p := left[i].Payload
		if sum := sha256.Sum256(r.Body); p.Body != hex.EncodeToString(sum[:]) || p.Size != len(r.Body) {
			t.Errorf("request %d had %d bytes with hash %x, recorded is %+v", i+1, len(r.Body), sum, p)
		}
		if p.Hash != recorded[i].Payload.Hash {
			t.Errorf("request %d left as %s and was recorded as %s", i+1, p.Hash, recorded[i].Payload.Hash)
		}
	}
}

// The scripts of the examples repair the project without a model: that of one agent, and that of make demo, in which
// two children in cages do the work.
func TestTheDemoScripts(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ script, project, said string }{
		"one agent":    {script: "wordcount.rehearsal.yaml", said: "rehearsal: a script plays the model"},
		"three agents": {script: "team/rehearsal.yaml", project: "team", said: "smith: completed (4 steps, 1 file changed)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kagedtest.NewWorld(t, "[models]\nsmart-generalist = \"rehearsal:wordcount\"\n\n[providers.rehearsal]\n"+
				"script = \""+
				filepath.Join(examples, c.script)+"\"\n")
			dir := w.Project(t)
			if c.project != "" {
				if err := os.RemoveAll(filepath.Join(dir, ".kaged")); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(filepath.Join(dir, ".kaged"), os.DirFS(filepath.Join(examples, c.project))); err != nil {
					t.Fatal(err)
				}
			}
			p := kagedtest.Command(t, "kaged", w.Env, "run", "--project", dir, "fix the failing test")
			out, code := p.Rest(t)
			if code != 0 || !strings.Contains(out, "The tests pass.") {
				t.Fatalf("kaged run ended with %d and said:\n%s%s", code, out, p.Stderr.String())
			}
			if said := p.Stderr.String(); !strings.Contains(said, c.said) {
				t.Errorf("kaged run did not say %q:\n%s", c.said, said)
			}
			if out, err := goTest(t, dir); err != nil {
				t.Errorf("the test still fails:\n%s", out)
			}
			if left := kagedtest.Running(t, w.DataDir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

package e2e_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// pairProject creates a project with a root agent that calls a smith, which has a cage. onCrash is the policy of the
// root.
func pairProject(t *testing.T, w *kagedtest.World, onCrash string) string {
	t.Helper()
	return pairProjectIn(t, w, "project", onCrash)
}

// pairProjectIn is [pairProject] in a folder of the world.
func pairProjectIn(t *testing.T, w *kagedtest.World, folder, onCrash string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, folder)
	kagedtest.Write(t, dir, ".kaged/project.yaml", `version: 1
project: `+folder+`
primary:
  model: smart-generalist
  system_prompt: ./lead.md
  on_crash: `+onCrash+`
  subagents:
    smith:
      model: smart-generalist
      system_prompt: ./smith.md
      tools: {"file.create": {enabled: true}, "shell.bash": {enabled: true}}
      cage:
        fs:
          - {mode: rw, path: project:/}
        capabilities: [shell]
`)
	kagedtest.Write(t, dir, "lead.md", "You lead.\n")
	kagedtest.Write(t, dir, "smith.md", "You are the smith.\n")
	return dir
}

// smiths reports whether a request is from the smith.
func smiths(r *fakellm.Request) bool { return strings.Contains(r.System, "You are the smith.") }

// delegating returns a root agent that gives one task to the smith and then ends; the function smith scripts the smith.
func delegating(smith func(*fakellm.Request) fakellm.Step) func(*fakellm.Request) fakellm.Step {
	return func(r *fakellm.Request) fakellm.Step {
		switch {
		case smiths(r):
			return smith(r)
		case strings.Contains(r.LastText(), "again"):
			return fakellm.Step{fakellm.Say("Still here.")}
		case r.Turns() == 0:
			return fakellm.Step{fakellm.Say("The smith does it."), fakellm.Tool("agent-smith", `{"prompt":"Do it."}`)}
		}
		return fakellm.Step{fakellm.Say("The smith is done.")}
	}
}

// invocations are the invocations of a session.
type invocations struct {
	Items []struct {
		ID    string `json:"invocation_id"`
		State string
		Error *struct{ Code string }
		Steps int
	}
}

// kill -9 of any single service while a child works in its cage: if the run does not need the killed service it
// continues, and the parent reads how its call ended; otherwise the run ends as interrupted, together with the child.
// No process of the child is left, and the session accepts the next message. A cancelled child is a failed call of its
// parent, which continues.
func TestAnyServiceMayDieInADelegation(t *testing.T) {
	t.Parallel()
	type ends struct{ run, child string }
	outcomes := map[string]ends{
		"gateway": {"completed", "cancelled"}, "session-manager": {"failed", "failed"}, "harness": {"failed", "failed"},
		"tool-runner": {"completed", "failed"},
		"lsp-pool":    {"completed", "cancelled"}, "dap-pool": {"completed", "cancelled"},
		"sandbox-supervisor": {"completed", "failed"}, "issue": {"completed", "cancelled"},
	}
	llm := fakellm.Start(t)
	llm.Handle(delegating(func(*fakellm.Request) fakellm.Step {
		const command = `{"command":"echo started; trap '' TERM; sleep 1000 & sleep 1000"}`
		return fakellm.Step{fakellm.Say("Working."), fakellm.Tool("shell.bash", command)}
	}))
	whole, c := t, startAlone(t, llm)
	dir := pairProject(t, c.World, "stop")
	for _, victim := range serviceNames {
		t.Run(victim, func(t *testing.T) {
			want := outcomes[victim]
			s := kagedtest.Open(t, c.SignIn(t), dir)
			s.Send(t, "have it done")
			for !strings.Contains(string(s.Until(t, "subagent.output").Payload), "started") {
			}

			c.processes[victim].Kill()
			<-c.processes[victim].Done()
			c.start(whole, victim)
			c.ready(t)
			if victim == "gateway" {
				s.Client = c.SignIn(t)
				s.Attach(t, s.Seen())
			}
			list := kagedtest.Get[invocations](t, s.Client, "/api/v1/sessions/"+s.ID+"/invocations")
			if len(list.Items) != 1 {
				t.Fatalf("invocations: %+v", list.Items)
			}
			child := "/api/v1/sessions/" + s.ID + "/invocations/" + list.Items[0].ID
			if want.child == "cancelled" {
				kagedtest.Post[struct{}](t, s.Client, child+"/cancel", map[string]any{})
			}
			ended := string(s.Until(t, "run.ended").Payload)
			if !strings.Contains(ended, `"outcome":"`+want.run+`"`) ||
				(want.run == "failed") != strings.Contains(ended, `"code":"interrupted"`) {
				t.Errorf("the run ended with %s, want %s", ended, want.run)
			}
			if got := kagedtest.Get[invocations](t, s.Client, "/api/v1/sessions/"+s.ID+"/invocations"); len(got.Items) != 1 ||
				got.Items[0].State != want.child {
				t.Errorf("invocations: %+v, want one that %s", got.Items, want.child)
			}
			kagedtest.Eventually(t, "the child's commands are gone", func() bool {
				return !slices.ContainsFunc(kagedtest.Running(t, dir), func(p string) bool {
					return strings.Contains(p, "sleep 1000")
				})
			})
			kagedtest.Eventually(t, "the session is idle", func() bool {
				var session struct{ State string }
				err := s.Client.Do(t.Context(), http.MethodGet, "/api/v1/sessions/"+s.ID, nil, &session)
				return err == nil && session.State == "idle"
			})
			if outcome := s.Run(t, "and again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
			s.Contiguous(t)
			s.SameAgain(t)
		})
	}
}

// checkInvocations checks that each invocation has exactly one start and one end.
func checkInvocations(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	told := map[string]int{}
	for _, f := range s.Frames {
		var p struct {
			ID string `json:"invocation_id"`
		}
		if f.Type == "subagent.start" || f.Type == "subagent.end" {
			kagedtest.Payload(t, f, &p)
			told[f.Type+" "+p.ID]++
		}
	}
	for what, n := range told {
		if _, id, _ := strings.Cut(what, " "); n != 1 || told["subagent.start "+id] != told["subagent.end "+id] {
			t.Errorf("%s was told %d times", what, n)
		}
	}
}

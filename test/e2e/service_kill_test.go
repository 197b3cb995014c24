package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// kill -9 of any single service while a command runs: the run ends with the stored part, the service starts again, and
// the session accepts the next message. The operator's socket stays open if its gateway does, every frame is repeated
// byte for byte, and reading the session calls no model. If the run itself does not need the killed service, it
// continues: the model reads that the command was interrupted.
func TestAnyServiceMayDie(t *testing.T) {
	t.Parallel()
	outcomes := map[string]string{
		"gateway": "cancelled", "session-manager": "failed", "harness": "failed", "tool-runner": "completed",
		"lsp-pool": "cancelled", "dap-pool": "cancelled", "sandbox-supervisor": "completed", "issue": "cancelled",
	}
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		switch {
		case strings.Contains(r.LastText(), "again"):
			return fakellm.Step{fakellm.Say("Still here.")}
		case r.Turns() == 0:
			return fakellm.Step{fakellm.Say("Waiting."), fakellm.Tool("shell.bash", `{"command":"echo started; sleep 1000"}`)}
		}
		return fakellm.Step{fakellm.Say("It broke off.")}
	})
	whole, c := t, startAlone(t, llm)
	dir := c.Project(t)
	for _, victim := range serviceNames {
		t.Run(victim, func(t *testing.T) {
			before := len(llm.Requests())
			s := kagedtest.Open(t, c.SignIn(t), dir)
			run := s.Send(t, "wait")
			s.Until(t, "message.tool_output")

			c.processes[victim].Kill()
			<-c.processes[victim].Done()
			c.start(whole, victim)
			c.ready(t)
			if victim == "gateway" {
				s.Client = c.SignIn(t)
				s.Attach(t, s.Seen())
			}
			if outcomes[victim] == "cancelled" {
				// The run continues; only its command still runs.
				kagedtest.Post[struct{}](t, s.Client, "/api/v1/sessions/"+s.ID+"/runs/"+run+"/cancel", map[string]any{})
			}
			if victim == "session-manager" {
				kagedtest.Eventually(t, "the session is idle", func() bool {
					var session struct{ State string }
					return s.Client.Do(t.Context(), http.MethodGet, "/api/v1/sessions/"+s.ID, nil, &session) == nil &&
						session.State == "idle"
				})
			}
			ended := string(s.Until(t, "run.ended").Payload)
			if want := outcomes[victim]; !strings.Contains(ended, `"outcome":"`+want+`"`) ||
				(want == "failed") != strings.Contains(ended, `"code":"interrupted"`) {
				t.Errorf("the run ended with %s, want %s", ended, want)
			}
			if outcome := s.Run(t, "and again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
			s.Contiguous(t)
			asked := len(llm.Requests())
			s.SameAgain(t)
			page := kagedtest.Get[messagePage](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages")
			if len(page.Items) != 4 || page.Items[0].Content != "wait" || !strings.HasPrefix(page.Items[1].Content, "Waiting.") {
				t.Errorf("messages: %+v", page.Items)
			}
			if n := len(llm.Requests()); n != asked || victim == "session-manager" && n-before != 2 {
				t.Errorf("the model was asked %d times, %d of them before anybody looked", n-before, asked-before)
			}
			kagedtest.Eventually(t, "the command is gone", func() bool {
				return !slices.ContainsFunc(kagedtest.Running(t, dir), func(p string) bool {
					return strings.Contains(p, "sleep 1000")
				})
			})
		})
	}
}

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// kill -9 between two runs of a session changes no byte that its model gets: a harness that keeps the conversation, a
// new harness, a new session-manager before a harness that has kept it, and both new send what a harness that keeps
// nothing sends without any kill.
func TestAKillBetweenRunsChangesNoByte(t *testing.T) {
	t.Parallel()
	kills := [][]string{nil, nil, {"harness"}, nil, {"session-manager"}, nil, {"harness", "session-manager"}, nil}
	answer := func(r *fakellm.Request) fakellm.Step {
		run := r.Turns() / 2 // each run has two turns
		if r.Turns()%2 == 0 {
			return fakellm.Step{
				fakellm.Think("Hm."), fakellm.Say("I look."),
				fakellm.ToolID(fmt.Sprintf("call_%d", run), "file.read", fmt.Sprintf(`{"path":"go.mod","limit":%d}`, run+1)),
			}
		}
		return fakellm.Step{fakellm.Say(fmt.Sprintf("Done %d.", run))}
	}
	keeps, whole := fakellm.Start(t), fakellm.Start(t)
	keeps.Handle(answer)
	whole.Handle(answer)

	c := startAlone(t, keeps)
	killed := kagedtest.Open(t, c.SignIn(t), c.Project(t))
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(whole, "anthropic")+"[services.harness]\nkept_sessions = 0\n")
	w.Up(t, databaseEnv(t))
	unharmed := kagedtest.Open(t, w.SignIn(t), w.Project(t))

	for i, victims := range kills {
		for _, name := range victims {
			c.processes[name].Kill()
			<-c.processes[name].Done()
		}
		for _, name := range victims {
			c.start(t, name)
			c.serves(t, name)
		}
		if len(victims) > 0 {
			kagedtest.Eventually(t, "the session is idle", func() bool {
				var session struct{ State string }
				return killed.Client.Do(t.Context(), http.MethodGet, "/api/v1/sessions/"+killed.ID, nil, &session) == nil &&
					session.State == "idle"
			})
		}
		for _, s := range []*kagedtest.Session{killed, unharmed} {
			if outcome := s.Run(t, fmt.Sprintf("message %d", i)); outcome != "completed" {
				t.Fatalf("run %d, after a kill of %v: %s", i, victims, outcome)
			}
		}
		got, want := keeps.Requests(), whole.Requests()
		if len(got) != 2*(i+1) || len(want) != len(got) {
			t.Fatalf("after run %d: %d requests, and %d without a kill", i, len(got), len(want))
		}
		for n := 2 * i; n < len(got); n++ {
			if !bytes.Equal(got[n].Body, want[n].Body) {
				t.Fatalf("request %d, after a kill of %v (-without +with):\n%s", n+1, victims,
					cmp.Diff(string(want[n].Body), string(got[n].Body)))
			}
		}
	}
	killed.Contiguous(t)
}

package e2e_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// kill -9 of any service between an agent and its debugger while the agent waits for a stop: adapter and program end,
// watchers are informed, and the agent can debug again when the service is back.
func TestAnyServiceMayDieWhileDebugging(t *testing.T) {
	t.Parallel()
	launch := fakellm.Tool("debug", `{"action":"launch","runtime":"go","mode":"test","script":".",`+
		`"args":["-test.run=TestMean"]}`)
	outcomes := map[string]string{
		"harness": "failed", "tool-runner": "completed", "dap-pool": "completed", "sandbox-supervisor": "completed",
	}
	for victim, outcome := range outcomes {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			llm.Handle(func(r *fakellm.Request) fakellm.Step {
				results := r.Results()
				if len(results) == 0 {
					return fakellm.Step{launch}
				}
				if strings.Contains(results[0].Content, `"entry"`) && !strings.Contains(r.LastText(), "again") {
					return fakellm.Step{fakellm.Tool("debug", `{"action":"continue","timeout":300000}`)}
				}
				return fakellm.Step{fakellm.Say("Done.")}
			})
			c := startAlone(t, llm)
			dir := debugged(t, c.World)
			s := kagedtest.Open(t, c.SignIn(t), dir)
			s.Send(t, "Why is the mean wrong?")
			for {
				var f debugFrame
				if kagedtest.Payload(t, s.Until(t, "debug.session"), &f); f.Moved.Action == "continue" {
					break
				}
			}
			program := "kaged-debug-" + debugID(t, s)
			c.processes[victim].Kill()
			<-c.processes[victim].Done()
			kagedtest.Eventually(t, "the program is gone", func() bool { return len(kagedtest.Running(t, program)) == 0 })
			c.start(t, victim)
			c.ready(t)
			if ended := string(s.Until(t, "run.ended").Payload); !strings.Contains(ended, `"outcome":"`+outcome+`"`) {
				t.Errorf("the run ended with %s, want %s", ended, outcome)
			}
			if !told(s, "debug.ended") {
				t.Error("watchers are not told of the end of the debug session")
			}
			if outcome := s.Run(t, "and again"); outcome != "completed" {
				t.Errorf("the next run %s", outcome)
			}
		})
	}
}

// debugID returns the id of the debug session in the frames of s.
func debugID(t *testing.T, s *kagedtest.Session) string {
	t.Helper()
	for _, f := range s.Frames {
		if f.Type == "debug.session" {
			var d debugFrame
			kagedtest.Payload(t, f, &d)
			return d.ID
		}
	}
	t.Fatal("no debug session was told of")
	return ""
}

// told reports whether a frame of a kind has arrived.
func told(s *kagedtest.Session, kind string) bool {
	for _, f := range s.Frames {
		if f.Type == kind {
			return true
		}
	}
	return false
}

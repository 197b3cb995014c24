package e2e_test

import (
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// kaged session attach shows run after run of a session to which another client posts. Ctrl-C detaches without any
// effect on the session.
func TestAttachToASession(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Said.\n")} })
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	w.Up(t, databaseEnv(t))
	c := w.SignIn(t)
	kagedtest.Post[struct{}](t, c, "/api/v1/projects/load", map[string]any{"path": dir})
	made := kagedtest.Post[struct{ ID string }](t, c, "/api/v1/projects/wordcount/sessions", map[string]any{})
	token := kagedtest.Post[struct{ Token string }](t, c, "/api/v1/tokens", map[string]any{"name": "a", "scope": "run"})
	p := kagedtest.Command(t, "kaged", kagedtest.Environ("KAGED_TOKEN="+token.Token),
		"session", "attach", made.ID, "--url", c.BaseURL())
	kagedtest.Eventually(t, "it is attached", func() bool { return strings.Contains(p.Stderr.String(), "attached to") })
	for range 2 {
		kagedtest.Post[struct{}](t, c, "/api/v1/sessions/"+made.ID+"/messages", map[string]any{"content": "say"})
		if line := p.Line(t); line != "Said." {
			t.Errorf("it printed %q", line)
		}
		kagedtest.Eventually(t, "the run is over", func() bool {
			return kagedtest.Get[struct{ State string }](t, c, "/api/v1/sessions/"+made.ID).State == "idle"
		})
	}
	p.Signal(syscall.SIGINT)
	if rest, code := p.Rest(t); code != 0 || strings.TrimSpace(rest) != "" {
		t.Errorf("it ended with %d and %q", code, rest)
	}
	if got := kagedtest.Get[struct{ State string }](t, c, "/api/v1/sessions/"+made.ID); got.State != "idle" {
		t.Errorf("the session is %s", got.State)
	}
}

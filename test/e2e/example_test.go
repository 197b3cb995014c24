package e2e_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// The program in docs/howto/use-the-api.md runs an agent with a token, unchanged, and prints the agent's changes.
func TestTheProgramOfTheDocs(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() > 0 {
			return fakellm.Step{fakellm.Say("Made.")}
		}
		return fakellm.Step{fakellm.Tool("file.create", `{"path":"made.txt","content":"made by an agent\n"}`)}
	})
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := w.Project(t)
	w.Up(t, databaseEnv(t))
	c := w.SignIn(t)
	kagedtest.Post[struct{}](t, c, "/api/v1/projects/load", map[string]any{"path": dir})
	var token struct{ Token string }
	body := map[string]any{"name": "diff", "scope": "run"}
	if err := c.Do(t.Context(), http.MethodPost, "/api/v1/tokens", body, &token); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./examples/api/diff.go", "wordcount", "make a file")
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), "KAGED_URL="+c.BaseURL(), "KAGED_TOKEN="+token.Token)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "+made by an agent") || !strings.Contains(string(out), "made.txt") {
		t.Errorf("the program printed %s, %v", out, err)
	}
}

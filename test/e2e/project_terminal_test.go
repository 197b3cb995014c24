//go:build faults

package e2e_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// On a terminal, kaged run and kaged project approve show a widening change and ask for approval. A yes approves the
// shown version, and the command continues with it; any other answer exits with 2 and keeps the approved version.
func TestWideningIsAskedAtATerminal(t *testing.T) {
	t.Parallel()
	const question = "Approve these files? [y/N] "
	for command, line := range map[string]struct {
		args []string
		done string
	}{
		"run":             {[]string{"run", "--project", "DIR", "go on"}, "Done."},
		"project approve": {[]string{"project", "approve", "DIR"}, "guarded is approved: "},
	} {
		for answer, approved := range map[string]bool{"y": true, "n": false, "": false} {
			t.Run(command+" "+answer, func(t *testing.T) {
				t.Parallel()
				llm := fakellm.Start(t)
				llm.Handle(func(*fakellm.Request) fakellm.Step { return fakellm.Step{fakellm.Say("Done.")} })
				w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
				dir := w.Project(t)
				kagedtest.Write(t, dir, ".kaged/project.yaml", guarded)
				kagedtest.Write(t, dir, "prompt.md", "You work.")
				w.Up(t, databaseEnv(t))
				c := w.SignIn(t)
				kagedtest.Open(t, c, dir)
				kagedtest.Write(t, dir, ".kaged/project.yaml", free)
				args := make([]string, len(line.args))
				for i, arg := range line.args {
					args[i] = strings.ReplaceAll(arg, "DIR", dir)
				}
				terminal := kagedtest.OnTerminal(t, "kaged", w.Env, args...)
				kagedtest.Eventually(t, "the question", func() bool { return strings.HasSuffix(terminal.Shown.String(), question) })
				shown, _, _ := strings.Cut(terminal.Shown.String(), question)
				for _, want := range []string{"+  tools: {\"shell.*\": {enabled: true}}", "primary: tools: "} {
					if !strings.Contains(shown, want) {
						t.Errorf("got %q, want %q before the question", shown, want)
					}
				}
				terminal.Type(t, answer+"\r")
				code := terminal.Wait(t)
				_, after, _ := strings.Cut(terminal.Shown.String(), question)
				if want := map[bool]int{true: 0, false: 2}[approved]; code != want ||
					strings.Contains(after, line.done) != approved {
					t.Errorf("got exit %d and %q, want %d and, for a yes, %q", code, after, want, line.done)
				}
				if got := comparisonOf(t, c, "guarded").State; got != map[bool]string{
					true:  "approved",
					false: "required",
				}[approved] {
					t.Errorf("got state %s after the answer %q", got, answer)
				}
			})
		}
	}
}

package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// languageServers returns the language servers that run for a project.
func languageServers(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, p := range kagedtest.Running(t, dir) {
		if strings.HasSuffix(p, " gopls ") {
			found = append(found, p)
		}
	}
	return found
}

// kill -9 of a service that needs a language server, or that runs it, ends the server. The next query starts a new one.
func TestLanguageServersEndWithTheServicesThatNeedThem(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"harness", "tool-runner", "lsp-pool", "session-manager", "sandbox-supervisor"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			llm := fakellm.Start(t)
			llm.Handle(func(r *fakellm.Request) fakellm.Step {
				if answered(r) {
					return fakellm.Step{fakellm.GotResult(`"name":"Count"`), fakellm.Say("I see.")}
				}
				return fakellm.Step{fakellm.Tool("code.lsp", `{"action":"symbols","path":"wordcount.go"}`)}
			})
			c := startAlone(t, llm)
			dir := c.Project(t)
			project := kagedtest.Read(t, dir, ".kaged/project.yaml")
			kagedtest.Write(t, dir, ".kaged/project.yaml", project+"    code.lsp: {enabled: true}\n")
			s := kagedtest.Open(t, c.SignIn(t), dir)
			if outcome := s.Run(t, "look"); outcome != "completed" {
				t.Fatalf("the run %s", outcome)
			}
			before := languageServers(t, dir)
			if len(before) == 0 {
				t.Fatal("no language server runs")
			}
			c.processes[victim].Kill()
			<-c.processes[victim].Done()
			kagedtest.Eventually(t, "no language server is left", func() bool { return len(languageServers(t, dir)) == 0 })

			c.start(t, victim)
			c.ready(t)
			kagedtest.Eventually(t, "the pool can be asked", func() bool {
				return s.Client.Do(t.Context(), http.MethodGet, "/api/v1/language-servers", nil, nil) == nil
			})
			if outcome := s.Run(t, "look again"); outcome != "completed" {
				t.Fatalf("the next run %s", outcome)
			}
			if after := languageServers(t, dir); len(after) == 0 || slices.Contains(after, before[0]) {
				t.Errorf("language servers %v, before %v", after, before)
			}
		})
	}
}

package e2e_test

import (
	"syscall"
	"testing"

	"kaged.dev/test/e2e/kagedtest"
)

// T-AUD-04, T-AUD-06: the audit has the start of a language server and its end, by idleness and by the end of the
// daemon. Without a further question the record of an end arrives while the daemon runs, or with its next start.
func TestEndsOfLanguageServersAreRecorded(t *testing.T) {
	t.Parallel()
	for reason, config := range map[string]string{
		"idle_timeout": "\n[services.lsp-pool]\nidle = \"1ms\"\n", "daemon_shutdown": "",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := kagedtest.NewWorld(t, kagedtest.FakeModels(symbols(t), "anthropic")+config)
			dir := withSymbols(t, w)
			env := databaseEnv(t)
			d := w.Up(t, env)
			s := kagedtest.Open(t, w.SignIn(t), dir)
			if outcome := s.Run(t, "look"); outcome != "completed" {
				t.Fatalf("the run %s", outcome)
			}
			spawned := about(t, s, "code.lsp.server_spawned")
			if len(spawned) != 1 || spawned[0].Payload["language"] != "go" || spawned[0].Payload["command"] != "gopls" ||
				spawned[0].Payload["project_id"] == nil {
				t.Errorf("spawned: %v", spawned)
			}
			if reason == "daemon_shutdown" {
				d.Signal(syscall.SIGTERM)
				if _, code := d.Rest(t); code != 0 {
					t.Fatalf("the daemon ended with %d", code)
				}
				if left := languageServers(t, dir); len(left) > 0 {
					t.Errorf("left are %v", left)
				}
				w.Up(t, env)
				s.Client = w.SignIn(t)
			}
			var stopped []recorded
			kagedtest.Eventually(t, "the end is recorded", func() bool {
				stopped = about(t, s, "code.lsp.server_stopped")
				return len(stopped) > 0
			})
			if len(stopped) != 1 || stopped[0].Payload["reason"] != reason || stopped[0].Payload["language"] != "go" ||
				stopped[0].Payload["project_id"] != spawned[0].Payload["project_id"] {
				t.Errorf("stopped: %v", stopped)
			}
		})
	}
}

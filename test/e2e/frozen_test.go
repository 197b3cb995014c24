package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// freezePostgres stops the embedded Postgres of a world with all its children, as a hanging disk does.
func freezePostgres(t *testing.T, w *kagedtest.World) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.DataDir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	frozen := 0
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if filepath.Base(dir) == first || len(fields) > 1 && fields[1] == first {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			frozen++
		}
	}
	if frozen < 5 {
		t.Fatalf("got %d processes of Postgres, want a server with its children", frozen)
	}
}

// With a Postgres that handles no signal, requests end, /readyz has the reason, SIGTERM ends the daemon with everything
// it started, and after kill -9 the next start has all data.
func TestFrozenPostgres(t *testing.T) {
	t.Parallel()
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(fakellm.Start(t), "anthropic"))
	dir := w.Project(t)
	d := w.Up(t, nil)
	s := kagedtest.Create(t, w.SignIn(t), dir)
	freezePostgres(t, w)
	kagedtest.Eventually(t, "/readyz says why", func() bool {
		var body struct{ Reason string }
		resp, err := http.Get(s.Client.BaseURL() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable && json.NewDecoder(resp.Body).Decode(&body) == nil &&
			strings.Contains(body.Reason, "does not answer")
	})
	kagedtest.Get[map[string]any](t, s.Client, "/api/v1/me")
	began := time.Now()
	d.Signal(syscall.SIGTERM)
	if _, code := d.Rest(t); code != 0 && code != 1 {
		t.Errorf("got exit %d, want 0 or 1", code)
	}
	t.Logf("SIGTERM took %s", time.Since(began).Round(time.Millisecond))
	if left := kagedtest.Running(t, w.Dir); len(left) > 0 {
		t.Errorf("got %v after the stop, want no process", left)
	}
	d = w.Up(t, nil)
	freezePostgres(t, w)
	d.Kill()
	began = time.Now()
	w.Up(t, nil)
	t.Logf("the start after kill -9 took %s", time.Since(began).Round(time.Millisecond))
	if got := kagedtest.Get[struct{ State string }](t, w.SignIn(t), "/api/v1/sessions/"+s.ID); got.State != "idle" {
		t.Errorf("got %s, want the session as it was", got.State)
	}
}

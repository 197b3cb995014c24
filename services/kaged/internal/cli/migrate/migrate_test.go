package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit/pgtest"
	"kaged.dev/services/issue"
	"kaged.dev/services/kaged/internal/cli"
	"kaged.dev/services/kaged/internal/cli/kit"
	sessionmanager "kaged.dev/services/session-manager"
)

// command runs kaged migrate and returns its exit code and its output.
func command(ctx context.Context, t *testing.T, env map[string]string, args ...string) (code int, stdout,
	stderr string,
) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(ctx, kit.App{
		Args:   append([]string{"--config", t.TempDir() + "/none.toml", "--data-dir", t.TempDir(), "migrate"}, args...),
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Modules: []host.Module{sessionmanager.Module, issue.Module},
	})
	return code, out.String(), errs.String()
}

// A service without the owner's password waits. kaged migrate prints the migrations, runs them, and then lists no
// more; the service's pool opens.
func TestMigrate(t *testing.T) {
	t.Parallel()
	owner, app := pgtest.URLs(t)
	env := map[string]string{"KAGED_DATABASE_URL": owner, "KAGED_DATABASE_APP_URL": app}
	open := func() error {
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: app}, issue.Module.Schema.Files,
			issue.Module.Schema.Name)
		if err == nil {
			pool.Close()
		}
		return err
	}
	if err := open(); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "kaged migrate") {
		t.Errorf("a service before the migration: got %v, want unavailable that says what to run", err)
	}
	code, out, _ := command(t.Context(), t, env, "--dry-run")
	if code != 0 || !strings.Contains(out, "issue: would run 001_issues.sql\n") || !strings.Contains(out,
		"session_manager: would run 001_projects.sql\n") {
		t.Errorf("the dry run ended with %d: %s", code, out)
	}
	if err := open(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("after the dry run: got %v, want unavailable", err)
	}
	if code, out, errs := command(t.Context(), t, env, "--wait"); code != 0 || !strings.Contains(out,
		"issue: ran 001_issues.sql\n") {
		t.Errorf("it ended with %d: %s%s", code, out, errs)
	}
	if err := open(); err != nil {
		t.Errorf("a service after the migration: %v", err)
	}
	for _, args := range [][]string{nil, {"--dry-run"}} {
		if code, out, _ := command(t.Context(), t, env, args...); code != 0 || strings.Count(out, "nothing to do\n") != 2 {
			t.Errorf("again, %v: ended with %d: %s", args, code, out)
		}
	}
}

// The error without a configured database names the variable to set. A database that does not answer is an error at
// once, or is awaited with --wait.
func TestMigrateWithoutADatabase(t *testing.T) {
	t.Parallel()
	if code, _, errs := command(t.Context(), t, nil); code == 0 || !strings.Contains(errs, "KAGED_DATABASE_URL") {
		t.Errorf("without a URL it ended with %d: %s", code, errs)
	}
	away := map[string]string{"KAGED_DATABASE_URL": "postgres://kaged@127.0.0.1:1/kaged"}
	if code, _, errs := command(t.Context(), t, away); code == 0 || strings.Contains(errs, "waiting") {
		t.Errorf("without a server it ended with %d: %s", code, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var code int
	var errs string
	done := make(chan struct{})
	go func() { defer close(done); code, _, errs = command(ctx, t, away, "--wait") }()
	cancel()
	<-done
	if code == 0 {
		t.Errorf("cut off it ended with %d: %s", code, errs)
	}
}

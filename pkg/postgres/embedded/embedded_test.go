package embedded

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(holdVariable) != "" {
		hold()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if template != "" {
			_ = os.RemoveAll(template)
		}
		os.Exit(code)
	}))
}

// template is a data directory with a database and no server. It is made once and copied for tests that do not test the
// creation of databases.
var template string

var makeTemplate = sync.OnceValue(func() (err error) {
	if template, err = os.MkdirTemp("", "kaged-embedded-"); err != nil {
		return err
	}
	s, err := Start(context.Background(), Options{DataDir: template, NoSync: true})
	if err != nil {
		return err
	}
	return s.Stop(context.Background())
})

// madeDir is a data directory with a database.
func madeDir(t testing.TB) string {
	t.Helper()
	dir := dataDir(t)
	if err := makeTemplate(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", template+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// dataDir is a data directory that is removed after its server has stopped.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kaged-embedded-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func mustStart(t testing.TB, dir string) *Server {
	t.Helper()
	s, err := Start(context.WithoutCancel(t.Context()), Options{DataDir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// query runs statements and returns the first value of the last one, or the error.
func query(t testing.TB, url string, statements ...string) (value string, err error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		rows, _ := conn.Query(ctx, s)
		values, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return "", err
		}
		if len(values) > 0 {
			value = values[0]
		}
	}
	return value, nil
}

func mustQuery(t testing.TB, url string, statements ...string) string {
	t.Helper()
	value, err := query(t, url, statements...)
	if err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	return value
}

func wantFault(t *testing.T, err error, code fault.Code, words ...string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code || f.Details["subsystem"] != "storage" {
		t.Fatalf("got %v, want %s of storage", err, code)
	}
	for _, w := range words {
		if !strings.Contains(f.Msg, w) {
			t.Errorf("the message %q does not say %q", f.Msg, w)
		}
	}
}

// The first start creates the database, and later starts find its data.
func TestADatabaseIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustStart(t, dir)
	mustQuery(t, s.OwnerURL(), "create table kept (note text)", "insert into kept values ('here')")
	owner, app := s.OwnerURL(), s.URL()
	stop(t, s)
	stop(t, s)
	again := mustStart(t, dir)
	if again.OwnerURL() != owner || again.URL() != app {
		t.Error("the URLs have changed")
	}
	if got := mustQuery(t, again.OwnerURL(), "select note from kept"); got != "here" {
		t.Errorf("the table holds %q", got)
	}
}

// Only this user reaches the server: it has no network, its folders are private, and every login needs a password.
func TestNobodyAnswersAStranger(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := mustStart(t, dir)
	if got := mustQuery(t, s.OwnerURL(), "show listen_addresses"); got != "" {
		t.Errorf("the server listens on %q", got)
	}
	for path, mode := range map[string]os.FileMode{
		s.paths.root: 0o700, s.paths.run: 0o700, s.paths.data: 0o700, s.paths.creds: 0o600, s.paths.log: 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, mode)
		}
	}
	for _, user := range []string{ownerLogin, appLogin, superuser} {
		for _, password := range []string{"", "wrong"} {
			if _, err := query(t, s.url(user, password), "select 'in'"); err == nil {
				t.Errorf("%s came in with the password %q", user, password)
			}
		}
	}
	log, err := os.ReadFile(s.paths.log)
	if err != nil || strings.Contains(string(log), s.creds.Owner) {
		t.Errorf("the log shows a password (%v)", err)
	}
	if got := mustQuery(t, s.OwnerURL(), "select string_agg(rolname || rolsuper, ' ' order by rolname) from pg_roles "+
		"where rolcanlogin"); got != "kaged_appfalse kaged_ownerfalse postgrestrue" {
		t.Errorf("the logins are %s", got)
	}
}

// Committed data survives a kill of the server, and its starter gets notice of its end.
func TestAServerThatDiesIsNoticedAndRecovers(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	mustQuery(t, s.OwnerURL(), "create table kept (note text)", "insert into kept values ('here')")
	if s.Err() != nil {
		t.Errorf("a server that runs has ended with %v", s.Err())
	}
	if err := s.proc.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	wantFault(t, s.Err(), fault.Unavailable, "ended unexpectedly", s.paths.log)
	stop(t, s)
	if got := mustQuery(t, mustStart(t, dir).OwnerURL(), "select note from kept"); got != "here" {
		t.Errorf("the table holds %q", got)
	}
}

// A stop without time kills the server, cuts its connections, and loses no data.
func TestStopDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	mustQuery(t, s.OwnerURL(), "create table kept (note text)", "insert into kept values ('here')")
	conn, err := pgx.Connect(t.Context(), s.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if got := mustQuery(t, mustStart(t, dir).OwnerURL(), "select note from kept"); got != "here" {
		t.Errorf("the table holds %q", got)
	}
}

// A data directory with a long path works: its socket is in a separate folder, which is removed with the server.
func TestALongPathHasItsSocketElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), strings.Repeat("long", 25))
	s := mustStart(t, dir)
	mustQuery(t, s.URL(), "select 'in'")
	if strings.HasPrefix(s.paths.run, dir) {
		t.Errorf("the socket is in %s", s.paths.run)
	}
	if info, err := os.Stat(s.paths.run); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder: %v, %v", info, err)
	}
	stop(t, s)
	if _, err := os.Stat(s.paths.run); !os.IsNotExist(err) {
		t.Errorf("the socket's folder is left behind: %v", err)
	}
	// Another user's folder with that name is not used.
	if err := os.Mkdir(s.paths.run, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(s.paths.run)
	if err := os.Chmod(s.paths.run, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{DataDir: dir})
	wantFault(t, err, fault.Conflict, s.paths.run, "remove it")
}

// Data of another major version is refused in one sentence and not changed.
func TestAnotherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	stop(t, s)
	file := filepath.Join(s.paths.data, "PG_VERSION")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text, words := range map[string][]string{
		"9\n": {"PostgreSQL 9", "pg_upgrade"}, "99\n": {"PostgreSQL 99", strings.TrimSpace(string(was))},
		"garbage": {"move it away"},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Start(t.Context(), Options{DataDir: dir})
		wantFault(t, err, fault.Conflict, append(words, s.paths.data)...)
	}
	if err := os.WriteFile(file, was, 0o600); err != nil {
		t.Fatal(err)
	}
	mustStart(t, dir)
}

// Two servers never share data, whoever started the other.
func TestDataIsUsedByOneServer(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, Options{DataDir: dir})
	wantFault(t, err, fault.Unavailable, "in use")
	// A server that was started by hand does not hold kaged's locks.
	for _, lock := range []string{s.paths.starter, s.paths.server} {
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Start(t.Context(), Options{DataDir: dir})
	wantFault(t, err, fault.Conflict, "process "+strconv.Itoa(s.PID()))
	mustQuery(t, s.URL(), "select 'still in'")
}

// A reused process id in a stale pid file does not prevent a start.
func TestAStaleProcessIDIsSeenThrough(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	status := filepath.Join(s.paths.data, "postmaster.pid")
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	other := os.Getppid() // a living process that is not a server
	_, rest, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(status, []byte(strconv.Itoa(other)+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	mustQuery(t, mustStart(t, dir).URL(), "select 'in'")
}

// Lost passwords are replaced, because a user with write access to the folder could do that anyway.
func TestLostPasswordsAreMadeAnew(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	old := s.URL()
	stop(t, s)
	if err := os.Remove(s.paths.creds); err != nil {
		t.Fatal(err)
	}
	again := mustStart(t, dir)
	mustQuery(t, again.URL(), "select 'in'")
	mustQuery(t, again.OwnerURL(), "select 'in'")
	if _, err := query(t, old, "select 'in'"); err == nil {
		t.Error("the old password still works")
	}
}

// A start that ends while it looks for PostgreSQL says so, and does not call the installation unusable.
func TestASearchThatIsCutOffIsSlow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	_, err := Start(ctx, Options{DataDir: dataDir(t)})
	wantFault(t, err, fault.Unavailable, "too long")
}

// An interrupted first start does not block the next one.
func TestACutOffFirstStartIsRepeated(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, Options{DataDir: dir})
	wantFault(t, err, fault.Unavailable, "too long")
	p := pathsIn(dir)
	if err := os.MkdirAll(filepath.Join(p.fresh, "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.data); !os.IsNotExist(err) {
		t.Fatalf("half a database is in place: %v", err)
	}
	mustQuery(t, mustStart(t, dir).URL(), "select 'in'")
}

// Without PostgreSQL, or with one that is too old, one sentence gives the next step.
func TestMissingProgramsAreNamed(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	env := func(key string) string { return map[string]string{"KAGED_PG_BIN": bin}[key] }
	_, err := Start(t.Context(), Options{DataDir: dataDir(t), Getenv: env})
	wantFault(t, err, fault.Unavailable, "KAGED_PG_BIN names "+bin)
	old := dataDir(t) // reachable for the user of root's server
	if err := os.Chmod(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		testkit.WriteProgram(t, filepath.Join(old, name), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) 12.1'\n"))
	}
	bin = old
	_, err = Start(t.Context(), Options{DataDir: dataDir(t), Getenv: env})
	wantFault(t, err, fault.Unavailable, "PostgreSQL 12 is older than 14")
	if hint := installHint(16); !strings.Contains(hint, "type: ") && !strings.Contains(hint, "KAGED_PG_BIN") {
		t.Errorf("the hint is %q", hint)
	}
	if got := newest("/usr/lib/postgresql/*/bin"); len(got) == 0 && len(searchOrder(t.Context(), os.Getenv)) == 0 {
		t.Error("no PostgreSQL was found, and these tests run one")
	}
}

// Every PostgreSQL client understands the URLs.
func TestURLsAreOrdinary(t *testing.T) {
	t.Parallel()
	s := &Server{paths: pathsIn("/data dir/x"), creds: credentials{App: "p"}}
	u, err := url.Parse(s.URL())
	if err != nil || u.Query().Get("host") != "/data dir/x/postgres/run" || u.User.Username() != appLogin {
		t.Errorf("%s: %v", s.URL(), err)
	}
}

func BenchmarkStartExisting(b *testing.B) {
	dir := madeDir(b)
	stop(b, mustStart(b, dir))
	for b.Loop() {
		s, err := Start(b.Context(), Options{DataDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		stop(b, s)
		b.StartTimer()
	}
}

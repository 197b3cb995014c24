package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// userVariable is the environment variable that makes this test binary use a database until it is killed.
const userVariable = "KAGED_PGTEST_USER"

func TestMain(m *testing.M) {
	if os.Getenv(userVariable) != "" {
		server, err := shared()
		fmt.Println(server.OwnerURL, err)
		select {}
	}
	goleak.VerifyTestMain(m)
}

var migrations = fstest.MapFS{"001_notes.sql": {Data: []byte("create table notes (note text primary key)")}}

// Each test has its own migrated database, works in it with the services' role, and leaves no database behind.
func TestEachTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	var names []string
	t.Run("tests", func(t *testing.T) {
		for range 3 {
			pool := New(t, migrations, "notes")
			if _, err := pool.Exec(t.Context(), "insert into notes values ('mine')"); err != nil {
				t.Error(err)
			}
			var name, user string
			if err := pool.QueryRow(t.Context(), "select current_database(), current_user").Scan(&name, &user); err != nil ||
				user != "kaged_app" {
				t.Errorf("working as %s: %v", user, err)
			}
			names = append(names, name)
		}
	})
	owner, _ := URLs(t)
	conn, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_database where datname = any($1)", names).
		Scan(&left); err != nil ||
		left != 0 {
		t.Errorf("%d databases of %v are left (%v)", left, names, err)
	}
}

// A killed test binary leaves no server: its child sees the end of its input and releases the slot.
func TestAKilledTestLeavesNoServer(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), userVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	place, said, _ := strings.Cut(strings.TrimSpace(line), " ")
	u, err := url.Parse(place)
	if err != nil || said != "<nil>" {
		t.Fatalf("the other binary says %q", line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	socket := u.Query().Get("host")
	waitUnlocked(t, filepath.Join(socket, "..", "..", slotLock))
	if _, err := os.Stat(filepath.Join(socket, ".s.PGSQL.5432")); !os.IsNotExist(err) {
		t.Errorf("the server's socket is still there: %v", err)
	}
}

// waitUnlocked returns when the lock is free.
func waitUnlocked(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// A private server can be stopped, killed and started again on its data, at the same address.
func TestAPrivateServerComesBack(t *testing.T) {
	t.Parallel()
	server := Server(t)
	owner := server.OwnerURL()
	if err := admin(t.Context(), owner, "create table kept (x int)"); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){server.Stop, server.Kill} {
		end()
		if err := admin(t.Context(), owner, "select from kept"); err == nil {
			t.Error("a server that has ended answers")
		}
		server.Start()
		if err := admin(t.Context(), owner, "select from kept"); err != nil {
			t.Error(err)
		}
	}
}

// Migrations with another text, or for another schema, give another template.
func TestTemplatesAreNamedByContent(t *testing.T) {
	t.Parallel()
	other := fstest.MapFS{"001_notes.sql": {Data: []byte("create table notes (note text)")}}
	hash := func(name string, files fs.FS) string { return contentHash(t, []Schema{{name, files}}) }
	a, b, c := hash("notes", migrations), hash("more", migrations), hash("notes", other)
	if a == b || a == c || b == c || a != hash("notes", migrations) {
		t.Errorf("%s %s %s", a, b, c)
	}
}

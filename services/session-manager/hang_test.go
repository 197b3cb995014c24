package sessionmanager

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"kaged.dev/pkg/fault"
)

// A database that is there and does not answer, as one whose container is paused, makes the service unready like one that is away; it is
// ready again once answers come.
func TestReadyWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("one")
	admin := w.admin()
	defer admin.Close(context.Background())
	rows, err := admin.Query(t.Context(), "select pid from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()", w.database())
	if err != nil {
		t.Fatal(err)
	}
	var backends []int
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			t.Fatal(err)
		}
		backends = append(backends, pid)
	}
	if err := rows.Err(); err != nil || len(backends) == 0 {
		t.Fatalf("the service has the connections %v, %v", backends, err)
	}
	signal := func(s syscall.Signal) {
		for _, pid := range backends {
			if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
				t.Fatalf("signalling a backend of Postgres: %v", err)
			}
		}
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	if err := n.Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("while the database hangs it says %v, want unavailable", err)
	}
	signal(syscall.SIGCONT)
	eventually(t, "the service is ready again", func() error { return n.Ready(t.Context()) })
}

package embedded

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
)

// freeze stops every process of the server of dir, as a hanging disk does, and returns their ids. It repeats the
// search, because processes may start or end in the meantime.
func freeze(t *testing.T, dir string) []int {
	t.Helper()
	var pids []int
	for running := true; running; {
		pids, running = nil, false
		for _, h := range holdersOf(pathsIn(dir).server) {
			if !h.stopped {
				running = true
				if err := unix.Kill(h.pid, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
					t.Fatal(err)
				}
			}
			pids = append(pids, h.pid)
		}
	}
	if len(pids) < 3 {
		t.Fatalf("got processes %v, want a server and its children", pids)
	}
	return pids
}

// connected opens a connection that stays open, so that the server has a backend.
func connected(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
}

// A stop out of time kills a server that handles no signals, with all its children, and no committed data is lost.
func TestStopEndsAFrozenServer(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := mustStart(t, dir)
	mustQuery(t, s.OwnerURL(), "create table kept (note text)", "insert into kept values ('here')")
	connected(t, s.URL())
	freeze(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Stop(ctx)
	waitForEnd(t, dir)
	if left := holdersOf(pathsIn(dir).server); len(left) > 0 {
		t.Errorf("got processes %v after the stop, want none", left)
	}
	if got := mustQuery(t, mustStart(t, dir).OwnerURL(), "select note from kept"); got != "here" {
		t.Errorf("got %q, want what was committed", got)
	}
}

// After kaged was killed and its server frozen, the next start ends that server and has all data.
func TestStartEndsAFrozenOrphan(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	h := startHolder(t, dir, nil)
	mustQuery(t, h.url, "create table kept (note text)", "insert into kept values ('here')")
	connected(t, h.url)
	frozen := freeze(t, dir)
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	s := mustStart(t, dir)
	if got := mustQuery(t, s.OwnerURL(), "select note from kept"); got != "here" {
		t.Errorf("got %q, want what was committed", got)
	}
	for _, pid := range frozen {
		if serves(pid, pathsIn(dir).data) {
			t.Errorf("process %d of the frozen server lives", pid)
		}
	}
}

// While its starter lives, a frozen server is not touched, and the refusal names the process to stop.
func TestAFrozenServerOfALivingStarterIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	h := startHolder(t, dir, nil)
	frozen := freeze(t, dir)
	_, err := Start(t.Context(), Options{DataDir: dir, NoSync: true})
	wantFault(t, err, fault.Conflict, "in use by another process of kaged", "stop that one first")
	if !strings.Contains(err.Error(), "pid ") {
		t.Errorf("got %v, want the pid", err)
	}
	for _, pid := range frozen {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	mustQuery(t, h.url, "select 'in'")
}

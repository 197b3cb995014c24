package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// Time limits of a start: for the end of the process that started an earlier server of the same data, and for the end
// of that server, which may have data to write. A stopped server, which handles no signals, gets as long as its
// starter. killPatience is the limit for the end of killed processes.
const (
	starterPatience = 3 * time.Second
	serverPatience  = 20 * time.Second
	killPatience    = 5 * time.Second
)

// poll is the interval of checks without an event: other processes' locks, and a server's status line.
const poll = 2 * time.Millisecond

// locks prevent two servers on one cluster. The starter's lock is held by the process that calls Start and ends with
// it. The server's lock is inherited by the server and all its children. A process that gets it knows that none of them
// is left, even if a process id was reused.
type locks struct{ starter, server *os.File }

func takeLocks(ctx context.Context, p paths) (*locks, error) {
	l := &locks{}
	var err error
	if l.starter, err = lockFile(ctx, p.starter, starterPatience, nil); err == nil {
		l.server, err = lockServer(ctx, p)
	}
	if err == nil {
		err = clearStalePID(p)
	}
	if err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// lockServer takes the server's lock. If the caller holds the starter's lock, a server that still runs has lost its
// parent: it is told to stop, and after a time it is killed with its children. It fails with conflict that names the
// processes if they cannot be killed.
func lockServer(ctx context.Context, p paths) (*os.File, error) {
	tell := func() {
		if pid := postmasterPID(p.data); serves(pid, p.data) {
			interrupt(pid)
		}
	}
	f, err := lockFile(ctx, p.server, starterPatience, tell)
	if errors.Is(err, fault.Conflict) && !stuck(p) {
		f, err = lockFile(ctx, p.server, serverPatience-starterPatience, nil)
	}
	if !errors.Is(err, fault.Conflict) {
		return f, err
	}
	killHolders(p)
	f, err = lockFile(ctx, p.server, killPatience, nil)
	if errors.Is(err, fault.Conflict) {
		return nil, inUse(p)
	}
	return f, err
}

// stuck reports whether a process that holds the server's lock is stopped.
func stuck(p paths) bool {
	return slices.ContainsFunc(holdersOf(p.server), func(h lockHolder) bool { return h.stopped })
}

// killHolders kills the remaining processes of a server: those that have inherited its lock. The caller holds the
// starter's lock. It searches several times, because a dying server may still start children.
func killHolders(p paths) {
	for range 3 {
		for _, h := range holdersOf(p.server) {
			h.end(p.server)
		}
	}
}

// inUse names the processes that prevent a start of the database, and the next step.
func inUse(p paths) error {
	var shown, pids []string
	for _, h := range holdersOf(p.server) {
		shown, pids = append(shown, fmt.Sprintf("%d (%s)", h.pid, h.name)), append(pids, strconv.Itoa(h.pid))
	}
	if len(pids) == 0 {
		return conflict(
			nil,
			"The database in %s is in use by processes of another user. Find them with \"fuser %s\", end them, and start "+
				"kaged again.",
			p.data,
			p.server,
		)
	}
	return conflict(
		nil,
		"The database in %s is in use by a PostgreSQL whose kaged has ended, and which does not stop: process %s. Type "+
			"\"kill -9 %s\", "+
			"and start kaged again.",
		p.data,
		strings.Join(shown, ", "),
		strings.Join(pids, " "),
	)
}

// lockFile waits for a lock up to patience. busy is called once if other processes hold it.
func lockFile(ctx context.Context, path string, patience time.Duration, busy func()) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, failed(err, "The file %s cannot be written.", path)
	}
	for range (retry.Pauses{First: poll, Last: poll, Within: patience}).Each(ctx) {
		ok, err := tryLock(f)
		if ok {
			return f, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, failed(err, "The file %s cannot be locked.", path)
		}
		if busy != nil {
			busy()
			busy = nil
		}
	}
	_ = f.Close()
	if ctx.Err() != nil {
		return nil, ended(ctx, "The database is in use by another process of kaged, which did not end in time.")
	}
	return nil, conflict(
		nil,
		"The database in %s is in use by another process of kaged%s; stop that one first.",
		filepath.Dir(path),
		named(holdersOf(path)),
	)
}

// named lists processes for a sentence, "" for none.
func named(holders []lockHolder) string {
	if len(holders) == 0 {
		return ""
	}
	pids := make([]string, len(holders))
	for i, h := range holders {
		pids[i] = strconv.Itoa(h.pid)
	}
	return ", pid " + strings.Join(pids, ", ")
}

// inherit passes the server's lock to a child.
func (l *locks) inherit(cmd *exec.Cmd) {
	if locksAreInherited {
		cmd.ExtraFiles = append(cmd.ExtraFiles, l.server)
	}
}

// handOver leaves the server's lock to the server.
func (l *locks) handOver() {
	_ = l.server.Close()
	l.server = nil
}

// release releases this process's locks; a running server keeps its own.
func (l *locks) release() {
	for _, f := range []*os.File{l.server, l.starter} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// clearStalePID removes the pid file of a dead server. Its process id may have been reused, and PostgreSQL would
// mistake that process for a server. A server started by hand holds none of kaged's locks, and its file is kept.
func clearStalePID(p paths) error {
	pid := postmasterPID(p.data)
	if pid == 0 || !alive(pid) {
		return nil // PostgreSQL detects that itself.
	}
	if serves(pid, p.data) {
		return conflict(
			nil,
			"The database in %s is in use by process %d, which kaged did not start; stop it first.",
			p.data,
			pid,
		)
	}
	// The socket's lock file holds the process id too. A killed server looks alive until its parent reaps it.
	for _, path := range []string{filepath.Join(p.data, "postmaster.pid"), filepath.Join(p.run, socketName+".lock")} {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return failed(err, "The left-over file %s cannot be removed.", path)
		}
	}
	return nil
}

// postmasterPID reads the process id in a server's pid file, 0 without one.
func postmasterPID(data string) int {
	lines := postmasterLines(data)
	if len(lines) == 0 {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(lines[0]))
	return max(pid, 0)
}

func postmasterLines(data string) []string {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

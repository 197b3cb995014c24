package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// holdVariable is the environment variable that turns this test binary into a process that runs a server in the folder
// in its value.
const holdVariable = "KAGED_EMBEDDED_HOLD"

// hold starts a server, prints its process id and URL, and waits to be killed.
func hold() {
	s, err := Start(context.Background(), Options{DataDir: os.Getenv(holdVariable), NoSync: true})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), s.OwnerURL())
	select {}
}

// holder is another process that runs a server.
type holder struct {
	cmd *exec.Cmd
	pid int
	url string
}

// startHolder starts a holder, as another user if credential is not nil.
func startHolder(t *testing.T, dir string, credential *syscall.Credential) holder {
	t.Helper()
	self, err := os.Open("/proc/self/exe") // other users cannot reach it by its path
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), holdVariable+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		waitForEnd(t, dir)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the other process said %q and no more: %v", line, err)
	}
	pid, url, _ := strings.Cut(strings.TrimSpace(line), " ")
	h := holder{cmd: cmd, url: url}
	if h.pid, err = strconv.Atoi(pid); err != nil {
		t.Fatalf("the other process says %q", line)
	}
	return h
}

// waitForEnd returns when all processes of a server of dir have ended: the lock that they inherited is free.
func waitForEnd(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(pathsIn(dir).server, os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return
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

// The end of a killed process ends its server cleanly: no process remains and no recovery is needed.
func TestKillingTheParentEndsTheServer(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	h := startHolder(t, dir, nil)
	mustQuery(t, h.url, "create table kept (note text)", "insert into kept values ('here')")
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	waitForEnd(t, dir)
	if serves(h.pid, pathsIn(dir).data) {
		t.Errorf("the server %d lives", h.pid)
	}
	if _, err := os.Stat(filepath.Join(pathsIn(dir).data, "postmaster.pid")); !os.IsNotExist(err) {
		t.Errorf("the server did not end in order: %v", err)
	}
}

// A start at the moment of the kill waits for the old server's end and has all data.
func TestStartingRightAfterAKillWorks(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	h := startHolder(t, dir, nil)
	mustQuery(t, h.url, "create table kept (note text)", "insert into kept values ('here')")
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s := mustStart(t, dir)
	if got := mustQuery(t, s.OwnerURL(), "select note from kept"); got != "here" || s.PID() == h.pid {
		t.Errorf("the table holds %q, served by %d", got, s.PID())
	}
}

// The next start stops a server that has lost its parent without noticing.
func TestAnOrphanIsStopped(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	h := startHolder(t, dir, nil)
	// A dead starter holds no lock; the remaining server holds its own.
	if err := os.Remove(pathsIn(dir).starter); err != nil {
		t.Fatal(err)
	}
	s := mustStart(t, dir)
	mustQuery(t, s.URL(), "select 'in'")
	if s.PID() == h.pid {
		t.Error("the orphan was not replaced")
	}
}

// An ordinary user's server runs as that user.
func TestAnOrdinaryUserRunsAServer(t *testing.T) {
	t.Parallel()
	dir, credential, uid := dataDir(t), (*syscall.Credential)(nil), os.Getuid()
	if uid == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ = strconv.Atoi(nobody.Uid)
		credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	h := startHolder(t, dir, credential)
	mustQuery(t, h.url, "select 'in'")
	info, err := os.Stat("/proc/" + strconv.Itoa(h.pid))
	if owner, _ := ownerOf(info); err != nil || owner != uid {
		t.Errorf("the server runs as %d (%v), want %d", owner, err, uid)
	}
}

// Every account that the launcher may choose runs a server with its data under a folder of mode 0700, and the next
// start finds the account by the owner of the data.
func TestEveryAccountRunsAServer(t *testing.T) {
	t.Parallel()
	probing := pathsIn(dataDir(t))
	accounts, err := accountsFor(probing)
	if err != nil {
		t.Fatal(err)
	}
	bins := searchOrder(t.Context(), os.Getenv)
	worked := 0
	for _, acc := range accounts {
		if out, err := runQuiet(t.Context(), acc, filepath.Join(bins[0], "postgres"), "--version"); err != nil {
			t.Logf("%s does not work on this machine: %v %s", acc, err, out)
			continue
		}
		worked++
		t.Run(acc.String(), func(t *testing.T) {
			p := pathsIn(dataDir(t))
			if err := p.make(); err != nil {
				t.Fatal(err)
			}
			locks, err := takeLocks(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			c := cluster{install: installation{bin: bins[0], account: acc}, paths: p, locks: locks, noSync: true}
			_, err = c.prepare(t.Context(), discard)
			locks.release()
			if err != nil {
				t.Fatal(err)
			}
			s := mustStart(t, filepath.Dir(p.root))
			mustQuery(t, s.URL(), "select 'in'")
			again, err := accountsFor(p)
			if err != nil || len(again) != 1 || again[0].mapped != acc.mapped || again[0].drop != acc.drop {
				t.Errorf("the next start would use %v (%v)", again, err)
			}
		})
	}
	if worked == 0 {
		t.Error("no account works on this machine")
	}
}

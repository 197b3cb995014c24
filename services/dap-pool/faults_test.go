package dappool_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/fault"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// hardProgram forks twice, detaches, ignores SIGTERM and writes output without end; its children do the same.
const hardProgram = `package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	child := exec.Command("sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	orphan := exec.Command("sh", "-c", "trap '' TERM HUP; (setsid sh -c 'while :; do sleep 1; done' >/dev/null 2>&1 &)")
	if child.Start() != nil || orphan.Run() != nil {
		os.Exit(9)
	}
	if os.WriteFile("forked", nil, 0o644) != nil {
		os.Exit(9)
	}
	for {
		fmt.Println(strings.Repeat("flood ", 1000))
	}
}
`

// marked returns the processes of this machine with a text in their environment.
func marked(t *testing.T, mark string) (found []string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		environ, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(environ), mark) {
			continue // the process belongs to another user, or has ended
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		found = append(found, filepath.Base(filepath.Dir(path))+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found
}

// eventually waits for a condition that depends on other processes.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !check() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not so after two minutes: %s", what)
		}
	}
}

// hard starts to debug the hard program and continues it until it has forked. Its processes have the returned mark in
// their environment.
func (b *bench) hard() (mark string) {
	b.t.Helper()
	b.write("go.mod", "module example.com/hard\n\ngo 1.24\n")
	b.write("main.go", hardProgram)
	mark = "HARD_MARK=" + b.root
	b.must("go", b.root, func(r *dappoolv1.StartRequest) {
		r.Folder = true
		r.Env = b.environment(map[string]string{"HARD_MARK": b.root, "TMPDIR": b.temporary()})
	})
	b.do(dappoolv1.Action_ACTION_CONTINUE, func(r *dappoolv1.ActRequest) { r.TimeoutMs = 1 })
	eventually(b.t, "the program has forked", func() bool {
		_, err := os.Stat(filepath.Join(b.root, "forked"))
		return err == nil
	})
	if n := len(marked(b.t, mark)); n < 4 { // the adapter, the program, the child and the grandchild
		b.t.Errorf("only %d processes: %v", n, marked(b.t, mark))
	}
	return mark
}

// temporary returns the folder for temporary files of the bench; in a cage it is the cage's own.
func (b *bench) temporary() string {
	if b.cage != nil {
		return "/tmp"
	}
	return filepath.Dir(b.write("tmp/keep", ""))
}

// over fails the test unless the processes with a mark have ended, and the program that Delve built is removed.
func (b *bench) over(mark string) {
	b.t.Helper()
	began := time.Now()
	eventually(b.t, "no process is left", func() bool { return len(marked(b.t, mark)) == 0 })
	b.t.Logf("no process is left after %s", time.Since(began).Round(time.Millisecond))
	eventually(b.t, "no program is left", func() bool {
		left, err := filepath.Glob(filepath.Join(b.root, "tmp", "kaged-debug-*"))
		return err == nil && len(left) == 0
	})
}

// T-DBG-SESS-03, -04, T-FM-05: a program that forks, detaches, writes without end and ignores signals ends with its
// debug session, for every reason for the session's end.
func TestHardProgramsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench){
		"disconnect": func(b *bench) { b.do(dappoolv1.Action_ACTION_DISCONNECT, nil) },
		"run": func(b *bench) {
			if _, err := b.EndRun(b.t.Context(), &dappoolv1.EndRunRequest{SessionId: "session"}); err != nil {
				b.t.Error(err)
			}
		},
		"killed adapter": func(b *bench) {
			if err := syscall.Kill(int(b.adapter()), syscall.SIGKILL); err != nil {
				b.t.Fatal(err)
			}
			eventually(b.t, "the session has ended", func() bool {
				_, err := b.act(dappoolv1.Action_ACTION_THREADS, nil)
				return errors.Is(err, fault.DapSessionEnded)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *bench) {
				mark := b.hard()
				end(b)
				b.over(mark)
			})
		})
	}
}

// An agent in a cage cannot attach to a process outside. That program is neither stopped nor traced.
func TestNoAttachOutOfTheCage(t *testing.T) {
	t.Parallel()
	outside := exec.Command("sleep", "600")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = outside.Process.Kill()
		_ = outside.Wait()
	})
	b := serve(t).caged("relaxed")
	for _, runtime := range []string{"go", "c"} {
		_, err := b.start(runtime, "", func(r *dappoolv1.StartRequest) {
			r.Attach, r.ProcessId = true, int32(outside.Process.Pid)
		})
		if !errors.Is(err, fault.DapRequestFailed) { // the adapter has tried it
			t.Errorf("%s: a caged agent attached to a process outside: %v", runtime, err)
		}
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(outside.Process.Pid) + "/status")
	if err != nil || !strings.Contains(string(status), "TracerPid:\t0") || strings.Contains(string(status), "State:\tT") {
		t.Errorf("the process outside is %s, %v", status, err)
	}
}

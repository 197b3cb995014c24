// Package kagedtest runs kaged for tests as people run it: as separate processes, with real stores, files and
// terminals. The test binary replaces the binaries: if it is started with the name of a command in its environment, it
// runs that command.
package kagedtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// execVar is the variable with the command that a test binary runs.
const execVar = "KAGED_TEST_EXEC"

// Limit is the time limit for a process's output or effect, after which a test fails. It only ends a hang: a build in a
// fresh cache takes a minute on a busy machine.
const Limit = 3 * time.Minute

// Main is the body of a TestMain: it runs the tests, or the command in a process that [Command] or a test script has
// started.
func Main(m *testing.M, commands map[string]func() int) {
	if name := os.Getenv(execVar); name != "" {
		command, ok := commands[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "kagedtest: no command", name)
			os.Exit(125)
		}
		os.Unsetenv(execVar)
		os.Args[0] = name
		os.Exit(command())
	}
	scripted := make(map[string]func(), len(commands))
	for name, command := range commands {
		scripted[name] = func() { os.Exit(command()) }
	}
	testscript.Main(m, scripted)
}

// Environ returns the environment of the commands: the few variables that programs need, without those of the machine's
// kaged.
func Environ(extra ...string) []string {
	env := []string{"GORACE=atexit_sleep_ms=50"}
	for _, name := range []string{
		"PATH", "HOME", "USER", "LANG", "TMPDIR", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "KAGED_PG_BIN",
	} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// Process is a started command.
type Process struct {
	// Stderr is its standard error until now.
	Stderr *Log
	cmd    *exec.Cmd
	lines  chan string // its standard output
	done   chan struct{}
	code   int // to be read after done is closed
}

// Command starts the command with a name. If it still runs at the end of the test, it is killed.
func Command(t testing.TB, name string, env []string, args ...string) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Stderr: &Log{}, lines: make(chan string, 1024), done: make(chan struct{})}
	p.cmd = exec.Command(exe, args...)
	p.cmd.Env = append(append([]string{}, env...), execVar+"="+name)
	p.cmd.Stderr = p.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.wait(stdout)
	t.Cleanup(func() {
		p.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s wrote on stderr:\n%s", name, p.Stderr.Tail(60))
		}
	})
	return p
}

func (p *Process) wait(stdout io.Reader) {
	defer close(p.done)
	for sc := bufio.NewScanner(stdout); sc.Scan(); {
		p.lines <- sc.Text()
	}
	close(p.lines)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		p.code = exit.ExitCode()
	case errors.As(err, &exit):
		p.code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	case err != nil:
		p.code = -1
	}
}

// Line returns the next line of stdout. The test fails if the process ends or prints nothing for too long.
func (p *Process) Line(t testing.TB) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			<-p.done
			t.Fatalf("the process ended with %d instead of saying anything; stderr:\n%s", p.code, p.Stderr.Tail(60))
		}
		return line
	case <-time.After(Limit):
		t.Fatalf("the process says nothing; stderr:\n%s", p.Stderr.Tail(60))
	}
	return ""
}

// Rest returns the rest of stdout after the process has ended, and its exit code, which is 128 plus the signal after a
// signal.
func (p *Process) Rest(t testing.TB) (stdout string, code int) {
	t.Helper()
	var b strings.Builder
	timeout := time.After(Limit)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.done
				return b.String(), p.code
			}
			b.WriteString(line + "\n")
		case <-timeout:
			t.Fatalf("the process does not end; stderr:\n%s", p.Stderr.Tail(60))
		}
	}
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends it a signal.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill kills only the process itself, not its children, as kill -9 does.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Log stores the output of a process while it writes.
type Log struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

// Write appends.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns everything written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Tail returns the last n lines.
func (l *Log) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(l.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Eventually repeats check until it succeeds. It is for states without events, such as the running processes.
func Eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// Running returns the command lines of the processes with mark in their environment, command line or working directory.
// A database that runs as another user can only be found by its working directory.
func Running(t testing.TB, mark string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range dirs {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if filepath.Base(dir) != fmt.Sprint(os.Getpid()) &&
			(bytes.Contains(cmdline, []byte(mark)) || bytes.Contains(environ, []byte(mark)) || strings.Contains(cwd, mark)) {
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

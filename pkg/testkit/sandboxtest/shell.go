// Package sandboxtest runs commands for tests: a small replacement of the sandbox that starts real processes, on a
// terminal or with pipes.
package sandboxtest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"
)

// Shell is a [sandbox.Runner] for tests. Its zero value works.
type Shell struct {
	// KillGrace is the time from the request to end a command until it is killed.
	KillGrace time.Duration
	// Refuse, if set, is the error returned for every command.
	Refuse error

	mu    sync.Mutex // guards specs and ended
	specs []sandbox.Spec
	ended []string
}

// Specs returns the specifications of all commands so far.
func (s *Shell) Specs() []sandbox.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sandbox.Spec(nil), s.specs...)
}

// Ended returns the sessions that were ended so far.
func (s *Shell) Ended() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ended...)
}

// EndRun has no effect: no command here belongs to a run.
func (s *Shell) EndRun(context.Context, string) error { return nil }

// EndSession records the call.
func (s *Shell) EndSession(_ context.Context, session string) ([]contract.Finding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, session)
	return nil, nil
}

// Run starts the command as leader of a new session, and kills its process group when it has ended.
func (s *Shell) Run(ctx context.Context, spec sandbox.Spec, output func([]byte)) (contract.Exit, error) {
	s.mu.Lock()
	s.specs = append(s.specs, spec)
	s.mu.Unlock()
	if s.Refuse != nil {
		return contract.Exit{}, s.Refuse
	}
	began := time.Now()
	cmd := &exec.Cmd{Path: find(spec), Args: spec.Argv, Dir: spec.Dir, Env: []string{}}
	for name, value := range spec.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	read, err := begin(cmd, spec, output)
	if err != nil {
		return contract.Exit{}, fault.Wrap(
			err,
			fault.ShellSpawnFailed,
			"The command could not be started: %v.",
			errors.Unwrap(err),
		)
	}
	var gone sync.WaitGroup
	over := make(chan struct{})
	reason := contract.ReasonNone
	gone.Go(func() { reason = s.watch(ctx, cmd.Process.Pid, spec.Timeout, over) })
	read()
	_ = cmd.Wait() // the process state has the outcome
	close(over)
	gone.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err := ctx.Err(); err != nil {
		return contract.Exit{Started: true}, err
	}
	return contract.Exit{Code: code(cmd.ProcessState), Reason: reason, Started: true, Duration: time.Since(began)}, nil
}

// find looks up a program in the PATH of the command, not of the test.
func find(spec sandbox.Spec) string {
	if strings.Contains(spec.Argv[0], "/") {
		return spec.Argv[0]
	}
	for _, dir := range filepath.SplitList(spec.Env["PATH"]) {
		path := filepath.Join(dir, spec.Argv[0])
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return "/no/such/program/" + spec.Argv[0]
}

// begin starts the command and returns a function that reads its output to the end.
func begin(cmd *exec.Cmd, spec sandbox.Spec, output func([]byte)) (read func(), err error) {
	if spec.Terminal {
		master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
		if err != nil {
			return nil, err
		}
		master.Write([]byte{4}) // end of input
		return func() { drain(master, output); master.Close() }, nil
	}
	stderr := spec.Stderr
	if stderr == nil {
		stderr = output
	}
	var one sync.Mutex // serialises the calls for both streams
	take := func(to func([]byte)) func([]byte) {
		return func(data []byte) { one.Lock(); defer one.Unlock(); to(data) }
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		var both sync.WaitGroup
		both.Go(func() { drain(errs, take(stderr)) })
		drain(out, take(output))
		both.Wait()
	}, nil
}

// watch ends the command after its timeout or when its caller has left.
func (s *Shell) watch(ctx context.Context, pid int, timeout time.Duration, over <-chan struct{}) contract.Reason {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-over:
		return contract.ReasonNone
	case <-ctx.Done():
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return contract.ReasonCancelled
	case <-timer.C:
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	select {
	case <-over:
	case <-time.After(s.KillGrace):
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	return contract.ReasonTimeout
}

// drain reads until the other side is closed by all.
func drain(from io.Reader, output func([]byte)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			output(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func code(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

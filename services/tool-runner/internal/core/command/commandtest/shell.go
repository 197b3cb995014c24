// Package commandtest runs commands for tests: a small stand-in for the sandbox that really starts them on a terminal.
package commandtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/command"
)

// Shell is a [command.Runner] for tests. Its zero value works.
type Shell struct {
	// KillGrace is how long a command that was asked to end may take.
	KillGrace time.Duration
	// Refuse, if set, is what every command fails with.
	Refuse error

	mu    sync.Mutex // guards specs and ended
	specs []command.Spec
	ended []string
}

// Specs returns what was asked to run so far.
func (s *Shell) Specs() []command.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]command.Spec(nil), s.specs...)
}

// Ended returns the sessions that were ended so far.
func (s *Shell) Ended() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ended...)
}

// EndSession records that it was called.
func (s *Shell) EndSession(_ context.Context, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, session)
	return nil
}

// Run starts the command as leader of a session of its own on a new terminal, and kills its process group when it is over.
func (s *Shell) Run(ctx context.Context, spec command.Spec, output func([]byte)) (command.Exit, error) {
	s.mu.Lock()
	s.specs = append(s.specs, spec)
	s.mu.Unlock()
	if s.Refuse != nil {
		return command.Exit{}, s.Refuse
	}
	began := time.Now()
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Dir = spec.Dir
	cmd.Env = []string{}
	for name, value := range spec.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		return command.Exit{}, fault.Wrap(err, fault.ShellSpawnFailed, "The command could not be started: %v.", errors.Unwrap(err))
	}
	defer master.Close()
	var gone sync.WaitGroup
	over := make(chan struct{})
	reason := command.None
	gone.Go(func() { reason = s.watch(ctx, cmd.Process.Pid, spec.Timeout, over) })
	master.Write([]byte{4}) // nothing to read
	drain(master, output)
	_ = cmd.Wait() // the state says it better
	close(over)
	gone.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err := ctx.Err(); err != nil {
		return command.Exit{}, err
	}
	return command.Exit{Code: code(cmd.ProcessState), Reason: reason, Duration: time.Since(began)}, nil
}

// watch ends the command when its time is up or its caller left.
func (s *Shell) watch(ctx context.Context, pid int, timeout time.Duration, over <-chan struct{}) command.Reason {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-over:
		return command.None
	case <-ctx.Done():
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return command.Cancelled
	case <-timer.C:
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	select {
	case <-over:
	case <-time.After(s.KillGrace):
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	return command.TimedOut
}

// drain reads a terminal until everybody has closed the other side.
func drain(master *os.File, output func([]byte)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := master.Read(buf)
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

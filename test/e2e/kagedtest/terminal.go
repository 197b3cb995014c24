package kagedtest

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Terminal is a command with a terminal as its standard streams and as its controlling terminal.
type Terminal struct {
	// Shown is the output until now, with the echo of typed keys.
	Shown *Log
	keys  *os.File
	cmd   *exec.Cmd
	done  chan struct{}
	code  int // to be read after done is closed
}

// OnTerminal starts the command with a name on a terminal. If it still runs at the end of the test, it is killed.
func OnTerminal(t testing.TB, name string, env []string, args ...string) *Terminal {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(append([]string{}, env...), execVar+"="+name)
	keys, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	x := &Terminal{Shown: &Log{}, keys: keys, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		_, _ = io.Copy(x.Shown, keys) // ends with EIO when the last process has closed the terminal
		_ = cmd.Wait()
		x.code = cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.done
		keys.Close()
		if t.Failed() {
			t.Logf("%s showed:\n%s", name, x.Shown.Tail(60))
		}
	})
	return x
}

// Type types keys.
func (x *Terminal) Type(t testing.TB, keys string) {
	t.Helper()
	if _, err := io.WriteString(x.keys, keys); err != nil {
		t.Fatal(err)
	}
}

// Resize changes the size of the terminal.
func (x *Terminal) Resize(t testing.TB, cols, rows uint16) {
	t.Helper()
	if err := pty.Setsize(x.keys, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		t.Fatal(err)
	}
}

// Signal sends a signal to the command.
func (x *Terminal) Signal(s syscall.Signal) { _ = x.cmd.Process.Signal(s) }

// Wait returns the exit code of the command, -1 for a signal. The test fails if the command does not end.
func (x *Terminal) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-x.done:
	case <-time.After(Limit):
		t.Fatalf("the command does not end; the terminal shows:\n%s", x.Shown.Tail(60))
	}
	return x.code
}

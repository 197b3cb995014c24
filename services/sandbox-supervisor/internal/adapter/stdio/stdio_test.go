//go:build unix

package stdio_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/stdio"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal returns the streams of a terminal and its slave side.
func terminal(t *testing.T) (*stdio.Streams, *os.File) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(master.Fd()))
	master.Close()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stdio.Terminal(fd)
	if err != nil {
		t.Fatal(err)
	}
	return s, slave
}

// collect copies output until its end. silent receives a value when all writers have closed.
func collect(s *stdio.Streams) (out, errs *bytes.Buffer, silent, done chan struct{}) {
	out, errs, silent, done = &bytes.Buffer{}, &bytes.Buffer{}, make(chan struct{}, 2), make(chan struct{})
	go func() {
		defer close(done)
		s.Copy(func(from core.Stream, data []byte) {
			if from == core.Stderr {
				errs.Write(data)
			} else {
				out.Write(data)
			}
		}, func() { silent <- struct{}{} })
		s.Close()
	}()
	return out, errs, silent, done
}

// A terminal held open by another process does not delay the end, and output from before the end is not lost.
func TestForeignHolder(t *testing.T) {
	t.Parallel()
	s, slave := terminal(t)
	defer slave.Close()
	out, _, _, done := collect(s)
	if _, err := slave.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	if !s.Resize(core.Size{Cols: 7, Rows: 8}) {
		t.Error("a terminal has no size")
	}
	if size, err := pty.GetsizeFull(slave); err != nil || size.Cols != 7 || size.Rows != 8 {
		t.Errorf("the size is %+v, %v", size, err)
	}
	s.End(50 * time.Millisecond)
	<-done
	if out.String() != "last words" {
		t.Errorf("output is %q", out.String())
	}
	if !s.Resize(core.Size{Cols: 1, Rows: 1}) || s.Write([]byte("x")) == nil {
		t.Error("a closed terminal takes input, or is none")
	}
}

// A holder that keeps writing does not delay the end either.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	s, theirs, err := stdio.Pipes(false)
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, done := collect(s)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if _, err := theirs[1].Write(make([]byte, 1<<16)); err != nil {
				return // the reader has closed
			}
		}
	}()
	s.End(10 * time.Millisecond)
	<-done
	<-stopped
	for _, f := range theirs {
		f.Close()
	}
}

// A process may close its terminal and open it again later.
func TestReopenedTerminal(t *testing.T) {
	t.Parallel()
	s, slave := terminal(t)
	out, _, silent, done := collect(s)
	if _, err := slave.WriteString("one "); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	again, err := os.OpenFile(slave.Name(), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.WriteString("two"); err != nil {
		t.Fatal(err)
	}
	again.Close()
	<-silent
	s.End(time.Second)
	<-done
	if out.String() != "one two" {
		t.Errorf("output is %q", out.String())
	}
}

// There are three pipes, and closing the input reaches the reader.
func TestPipes(t *testing.T) {
	t.Parallel()
	s, theirs, err := stdio.Pipes(false)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, silent, done := collect(s)
	if err := s.Write([]byte("in")); err != nil {
		t.Fatal(err)
	}
	s.CloseInput()
	s.CloseInput()
	if s.Write([]byte("late")) == nil {
		t.Error("a closed input takes more")
	}
	var in bytes.Buffer
	if _, err := in.ReadFrom(theirs[0]); err != nil || in.String() != "in" {
		t.Errorf("input is %q, %v", in.String(), err)
	}
	for i, text := range []string{"", "out", "err"} {
		if _, err := theirs[i].WriteString(text); i > 0 && err != nil {
			t.Fatal(err)
		}
		theirs[i].Close()
	}
	<-silent
	s.End(time.Second)
	<-done
	if out.String() != "out" || errs.String() != "err" || s.Resize(core.Size{Cols: 1, Rows: 1}) {
		t.Errorf("output is %q and %q", out.String(), errs.String())
	}
}

// Unread input is dropped at the end.
func TestUnreadInput(t *testing.T) {
	t.Parallel()
	s, theirs, err := stdio.Pipes(false)
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, done := collect(s)
	wrote := make(chan error, 1)
	go func() { wrote <- s.Write(make([]byte, 1<<20)) }()
	theirs[1].Close()
	theirs[2].Close()
	s.End(time.Second)
	if <-wrote == nil {
		t.Error("a megabyte that nobody read was written")
	}
	<-done
	theirs[0].Close()
}

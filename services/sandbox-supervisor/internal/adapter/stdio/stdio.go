//go:build unix

// Package stdio is a process's standard files as its supervisor holds them: a terminal's master side or three pipes.
//
// Output is read no faster than it is taken and never kept, so a consumer that stops reading makes the process wait and
// costs no memory. After the end of the process its output is still read to the end. If a process of another origin
// holds the other side open, the output ends with the first short pause.
package stdio

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/core"
)

const (
	// chunk is the most bytes handed over at once.
	chunk = 32 << 10
	// maxRest is the most bytes read after the end of a process from files that another process holds open: more than a
	// pipe or a terminal keeps.
	maxRest = 2 << 20
	// endOfFile is the character that tells a terminal's reader that there is no more.
	endOfFile = 4
)

// Streams are the standard files of one process. Its methods may be called by many at once, Copy once.
type Streams struct {
	outputs  []output
	terminal bool
	ended    chan struct{} // closed by End

	mu     sync.Mutex // guards the fields below; not held while writing
	input  *os.File   // nil when it is closed; a terminal's is that of its output
	closed bool       // Close was called
	inLine bool       // the last input of the terminal did not end its line
}

type output struct {
	stream core.Stream
	file   *os.File
}

// Terminal returns the streams of a terminal's master side, a descriptor it owns from here on.
func Terminal(fd int) (*Streams, error) {
	file, err := pollable(fd, "terminal")
	if err != nil {
		return nil, err
	}
	return &Streams{outputs: []output{{core.Stdout, file}}, terminal: true, input: file, ended: make(chan struct{})}, nil
}

// Pipes returns streams and the process's ends of them: standard input, output and error, for the caller to close when
// the process is started. With merge standard error is standard output, one file that stands there twice.
func Pipes(merge bool) (_ *Streams, theirs [3]*os.File, err error) {
	var ours [3]*os.File
	defer func() {
		if err != nil {
			for _, f := range append(ours[:], theirs[:]...) {
				if f != nil {
					f.Close()
				}
			}
		}
	}()
	for i := range ours {
		if i == 2 && merge {
			theirs[2] = theirs[1]
			break
		}
		r, w, err := pipe()
		if err != nil {
			return nil, theirs, err
		}
		mine, its := r, w // output comes from the process
		if i == 0 {
			mine, its = w, r
		}
		theirs[i] = os.NewFile(uintptr(its), "pipe") // stays blocking, as programs expect
		if ours[i], err = pollable(mine, "pipe"); err != nil {
			return nil, theirs, err
		}
	}
	s := &Streams{outputs: []output{{core.Stdout, ours[1]}}, input: ours[0], ended: make(chan struct{})}
	if !merge {
		s.outputs = append(s.outputs, output{core.Stderr, ours[2]})
	}
	return s, theirs, nil
}

// pipe returns a pipe that no other process inherits.
func pipe() (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock() // for systems that cannot make it so at once
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return -1, -1, err
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return p[0], p[1], nil
}

// pollable makes a descriptor a file with deadlines for reads and writes.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// End says that the process and all it started is gone: writing ends, and reading within wait.
func (s *Streams) End(wait time.Duration) {
	for _, out := range s.outputs {
		_ = out.file.SetReadDeadline(time.Now().Add(wait))
	}
	s.mu.Lock()
	if s.input != nil {
		_ = s.input.SetWriteDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	close(s.ended)
}

// Copy hands over output as core.Process says, and closes the files at the end. It ends after End only. It calls silent
// once all writers are gone, which may be before End; for a terminal perhaps twice.
func (s *Streams) Copy(sink func(core.Stream, []byte), silent func()) {
	var turn sync.Mutex // held while sink runs
	var wg sync.WaitGroup
	for _, out := range s.outputs {
		wg.Go(func() {
			s.copy(out, func(data []byte) {
				turn.Lock()
				defer turn.Unlock()
				sink(out.stream, data)
			}, silent)
		})
	}
	wg.Wait()
	silent()
	<-s.ended
	s.Close()
}

// copy hands over one output until its end.
func (s *Streams) copy(out output, sink func([]byte), silent func()) {
	buf := make([]byte, chunk)
	for {
		n, err := out.file.Read(buf)
		if n > 0 {
			sink(append([]byte(nil), buf[:n]...)) // gRPC may look at it after it was sent
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.rest(out, buf, sink)
			return
		case s.terminal && errors.Is(err, syscall.EIO):
			// No process has the terminal open. A running one may open it again.
			select {
			case <-s.ended:
				return
			default:
			}
			silent()
			<-s.ended
			s.rest(out, buf, sink)
			return
		default:
			return // the end of a pipe
		}
	}
}

// rest hands over the buffered output without waiting for more.
func (s *Streams) rest(out output, buf []byte, sink func([]byte)) {
	raw, err := out.file.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < maxRest; {
		n, readErr := 0, error(nil)
		err := raw.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), buf) })
		if errors.Is(readErr, unix.EINTR) {
			continue
		}
		if err != nil || readErr != nil || n == 0 {
			return
		}
		sink(append([]byte(nil), buf[:n]...))
		total += n
	}
}

// Write writes to the standard input. It blocks until the input is read, or until End.
func (s *Streams) Write(data []byte) error {
	s.mu.Lock()
	file := s.input
	if file != nil && len(data) > 0 {
		s.inLine = data[len(data)-1] != '\n'
	}
	s.mu.Unlock()
	if file == nil {
		return os.ErrClosed
	}
	_, err := file.Write(data)
	return err
}

// CloseInput ends the standard input. A terminal's reader is told by the end-of-file character, which ends its line
// first if one was begun.
func (s *Streams) CloseInput() {
	s.mu.Lock()
	file, inLine := s.input, s.inLine
	s.input = nil
	s.mu.Unlock()
	switch {
	case file == nil:
	case s.terminal && inLine:
		_, _ = file.Write([]byte{endOfFile, endOfFile})
	case s.terminal:
		_, _ = file.Write([]byte{endOfFile})
	default:
		file.Close()
	}
}

// Resize sets the size of the terminal and reports whether there is one.
func (s *Streams) Resize(size core.Size) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		return false
	}
	if s.closed {
		return true // it was resized too late, not wrongly
	}
	raw, err := s.outputs[0].file.SyscallConn() // not Fd, which would take the deadlines from the file
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Cols)})
	})
	return true
}

// Hidden reports whether the terminal reads a line without showing it, as a prompt for a password does.
func (s *Streams) Hidden() (hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal || s.closed {
		return false
	}
	raw, err := s.outputs[0].file.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		modes, err := unix.IoctlGetTermios(int(fd), getTermios)
		hidden = err == nil && modes.Lflag&unix.ICANON != 0 && modes.Lflag&unix.ECHO == 0
	})
	return hidden
}

// Close closes the files. Copy calls it too; callers need it for streams whose process was never started.
func (s *Streams) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, out := range s.outputs {
		out.file.Close()
	}
	if s.input != nil {
		s.input.Close()
	}
	s.input, s.closed = nil, true
}

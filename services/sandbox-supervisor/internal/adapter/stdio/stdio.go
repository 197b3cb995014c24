//go:build unix

// Package stdio is the supervisor's side of a process's standard files: a terminal's master side or three pipes.
//
// Output is read only as fast as it is consumed and is not buffered, so a consumer that stops reading makes the process
// wait and costs no memory. After the end of the process its remaining output is still read. If an unrelated process
// holds the other side open, the output ends with the first short pause.
//
// The pipes of standard input and output can be offered to the process's caller; see package handover. While they are
// offered and after they were taken, Copy passes only standard error.
package stdio

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/handover"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

const (
	// chunk is the maximum number of bytes passed on at once.
	chunk = 32 << 10
	// maxRest is the maximum number of bytes read after the end of a process from files that another process holds open:
	// more than a pipe or a terminal buffers.
	maxRest = 2 << 20
	// endOfFile is the character that ends the input of a terminal's reader.
	endOfFile = 4
)

// Streams are the standard files of one process. Its methods may be called from any goroutine, Copy once.
type Streams struct {
	outputs  []output
	terminal bool
	ended    chan struct{} // closed by End

	mu     sync.Mutex // guards the fields below; not held while writing
	input  *os.File   // nil when closed; for a terminal the same file as its output
	closed bool       // whether Close was called
	inLine bool       // whether the last input to the terminal lacked a line end
	over   bool       // whether End was called
	silent bool       // whether no process had the terminal open when it was last read

	offer *handover.Offer // the offer of input and standard output, nil without one
	back  chan struct{}   // closed when the offer was withdrawn
}

type output struct {
	stream core.Stream
	file   *os.File
}

// Terminal returns the streams of a terminal's master side and takes ownership of the descriptor.
func Terminal(fd int) (*Streams, error) {
	file, err := pollable(fd, "terminal")
	if err != nil {
		return nil, err
	}
	return &Streams{outputs: []output{{core.Stdout, file}}, terminal: true, input: file, ended: make(chan struct{})}, nil
}

// Pipes returns streams and the process's ends of the pipes: standard input, output and error. The caller closes them
// when the process has started. With merge standard error is the same file as standard output.
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

// pollable returns a file with deadlines for a descriptor that has no other flags.
func pollable(fd int, name string) (*os.File, error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Offer offers standard input and output, and returns the ticket; "" for a terminal and for an ended process. Call it
// at most once, and before Copy.
func (s *Streams) Offer() (ticket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal || s.over || s.input == nil {
		return ""
	}
	s.offer, s.back = handover.New(s.input, s.outputs[0].file), make(chan struct{})
	return s.offer.Ticket()
}

// Withdraw ends an offer that was not taken.
func (s *Streams) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdraw()
}

// withdraw ends an offer that was not taken. It reports whether input and standard output belong to these streams. s.mu
// is held.
func (s *Streams) withdraw() bool {
	if s.offer == nil {
		return true
	}
	select {
	case <-s.back:
		return true
	default:
	}
	if !s.offer.Withdraw() {
		return false
	}
	close(s.back)
	return true
}

// owned returns the outputs that belong to these streams.
func (s *Streams) owned() []output {
	if s.offer == nil {
		return s.outputs
	}
	select {
	case <-s.back:
		return s.outputs
	case <-s.offer.Taken():
		return s.outputs[1:]
	}
}

// End records that the process and all its descendants have ended: writing ends at once, and reading within wait. Taken
// files are left to the taker.
func (s *Streams) End(wait time.Duration) {
	s.mu.Lock()
	s.over = true
	silent := s.silent
	if s.withdraw() && s.input != nil {
		_ = s.input.SetWriteDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	if !silent { // otherwise its reader waits only for the end
		for _, out := range s.owned() {
			_ = out.file.SetReadDeadline(time.Now().Add(wait))
		}
	}
	close(s.ended)
}

// Copy passes output on as specified in core.Process. It calls silent once all writers have closed, possibly before
// End, and for a terminal possibly twice. It closes the pipes when all output is passed, which is usually before the
// process is reaped; a terminal stays open until Close.
func (s *Streams) Copy(sink func(core.Stream, []byte), silent func()) {
	var turn sync.Mutex // held while sink runs
	pass := func(out output) {
		s.copy(out, func(data []byte) {
			turn.Lock()
			defer turn.Unlock()
			sink(out.stream, data)
		}, silent)
	}
	var wg sync.WaitGroup
	for _, out := range s.outputs[1:] {
		wg.Go(func() { pass(out) })
	}
	if len(s.owned()) == len(s.outputs) {
		pass(s.outputs[0])
	}
	wg.Wait()
	silent()
	if !s.terminal {
		for _, out := range s.owned() {
			out.file.Close()
		}
	}
}

// buffers are those of copy.
var buffers = sync.Pool{New: func() any { return new([chunk]byte) }}

// copy passes one output on until its end.
func (s *Streams) copy(out output, sink func([]byte), silent func()) {
	buffer := buffers.Get().(*[chunk]byte)
	defer buffers.Put(buffer)
	buf := buffer[:]
	for {
		n, err := out.file.Read(buf)
		if n > 0 {
			sink(append([]byte(nil), buf[:n]...)) // a copy, because gRPC may read it after Send has returned
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.rest(out, buf, sink)
			return
		case s.terminal && errors.Is(err, syscall.EIO):
			// No process has the terminal open. A running process may open it again.
			select {
			case <-s.ended:
				return
			default:
			}
			s.mu.Lock()
			s.silent = true
			s.mu.Unlock()
			silent()
			<-s.ended
			s.rest(out, buf, sink)
			return
		default:
			return // the end of a pipe
		}
	}
}

// rest passes on the buffered output without waiting for more.
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
	file := s.mine()
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

// mine returns the file of the standard input, nil if it is closed, offered or taken. s.mu is held.
func (s *Streams) mine() *os.File {
	if s.offer == nil {
		return s.input
	}
	select {
	case <-s.back:
		return s.input
	default:
		return nil
	}
}

// CloseInput ends the standard input. For a terminal it writes the end-of-file character, twice if a line was begun,
// because the first then only ends that line.
func (s *Streams) CloseInput() {
	s.mu.Lock()
	file, inLine := s.mine(), s.inLine
	if file != nil {
		s.input = nil
	}
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
		return true // the terminal is closed already, which is not an error
	}
	raw, err := s.outputs[0].file.SyscallConn() // not Fd, which would disable the file's deadlines
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Cols)})
	})
	return true
}

// Hidden reports whether the terminal reads a line without echo, as a password prompt does.
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

// Close closes the files: after Copy and End, or of a process that was never started.
func (s *Streams) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.withdraw() && s.input != nil {
		s.input.Close()
	}
	for _, out := range s.owned() {
		out.file.Close()
	}
	s.input, s.closed = nil, true
}

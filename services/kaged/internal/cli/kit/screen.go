package kit

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"kaged.dev/pkg/termtext"
)

// screen writes to a terminal without control characters and invisible ones, so that text of others cannot draw. It is
// safe for concurrent use.
type screen struct {
	file *os.File
	mu   sync.Mutex
	text *termtext.Writer
}

// Screen returns the stream for a command's output: w itself, or if w is a terminal, a writer to it that removes
// control characters and invisible ones, as [termtext.Writer] does.
func Screen(w io.Writer) io.Writer {
	file, ok := w.(*os.File)
	if !ok || !IsTerminal(file) {
		return w
	}
	return &screen{file: file, text: termtext.NewWriter(file)}
}

// Raw returns the stream under that of [Screen], for text that moves the cursor intentionally.
func Raw(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.file
	}
	return w
}

// Write implements io.Writer.
func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	if _, ok := stream.(*screen); ok {
		return true
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// JSON returns a writer of JSON with one value or more in each write: w itself, or if w is a terminal, a writer to it
// that escapes control characters and invisible ones. The values stay the same.
func JSON(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return escapes{w}
	}
	return w
}

type escapes struct{ w io.Writer }

// Write implements io.Writer.
func (e escapes) Write(data []byte) (int, error) {
	if _, err := io.WriteString(e.w, termtext.JSON(string(data))); err != nil {
		return 0, err
	}
	return len(data), nil
}

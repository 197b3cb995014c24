package kit

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Keyboard shares the terminal's input: an open question gets all input, otherwise the reader of lines does. It is safe
// for concurrent use.
type Keyboard struct {
	mu      sync.Mutex
	free    *sync.Cond
	asking  int  // the number of questions that are open or waiting
	taken   bool // a question has the input
	reading bool // the reader of lines has the input
	closed  bool
	lines   *os.File
	reader  *bufio.Reader
}

// NewKeyboard returns the keyboard of the terminal on which the command was started.
func NewKeyboard() *Keyboard {
	k := &Keyboard{}
	k.free = sync.NewCond(&k.mu)
	return k
}

// Ask calls f when no other question is open and no line is being read. A partly typed line is lost.
func (k *Keyboard) Ask(f func()) {
	k.mu.Lock()
	k.asking++
	if k.lines != nil {
		_ = k.lines.SetReadDeadline(time.Unix(1, 0)) // ends the read of a line
	}
	for k.taken || k.reading {
		k.free.Wait()
	}
	k.taken = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.taken = false
		if k.asking--; k.asking == 0 && k.lines != nil {
			_ = k.lines.SetReadDeadline(time.Time{})
		}
		k.free.Broadcast()
		k.mu.Unlock()
	}()
	f()
}

// Lines calls f with each line that is typed while no question is open, without surrounding spaces, until the keyboard
// is closed or the user types the end of input. It skips empty lines. It returns at once without a terminal, and in a
// background process group, because the kernel would stop it at a read.
func (k *Keyboard) Lines(a App, f func(line string)) {
	if !IsTerminal(a.Stdin) {
		return
	}
	tty, _ := a.Terminal().(*os.File)
	if tty == nil {
		return
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		tty.Close()
		return
	}
	k.lines, k.reader = tty, bufio.NewReader(tty)
	if k.asking > 0 {
		_ = tty.SetReadDeadline(time.Unix(1, 0))
	}
	k.mu.Unlock()
	defer k.Close()
	defer ignoreStops()()
	for foreground(tty) {
		line, err := k.line()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return
		}
		if line = strings.TrimSpace(line); line != "" {
			f(line)
		}
	}
}

func (k *Keyboard) line() (string, error) {
	k.mu.Lock()
	for k.asking > 0 {
		k.free.Wait()
	}
	if k.reader == nil {
		k.mu.Unlock()
		return "", io.EOF
	}
	reader := k.reader
	k.reading = true
	k.mu.Unlock()
	line, err := reader.ReadString('\n')
	k.mu.Lock()
	k.reading = false
	k.free.Broadcast()
	k.mu.Unlock()
	return line, err
}

// Close ends [Keyboard.Lines], even if it starts later.
func (k *Keyboard) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.lines != nil {
		k.lines.Close()
		k.lines, k.reader = nil, nil
	}
}

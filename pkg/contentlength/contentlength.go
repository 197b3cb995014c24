// Package contentlength frames messages with a Content-Length header, as the protocols of language servers and debug
// adapters do. The peer is a program that may break the rules: headers, messages and the queue are bounded.
package contentlength

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// headerBytes is the maximum size of the headers of one message. Up to smallMessage bytes a message has its buffer at
// once.
const (
	headerBytes  = 4 << 10
	smallMessage = 16 << 10
)

// Reader reads messages. One goroutine at a time may use it.
type Reader struct {
	in     *bufio.Reader
	most   int
	broken error
}

// NewReader returns a Reader of messages of at most most bytes. Its errors about the framing wrap broken.
func NewReader(in io.Reader, most int, broken error) *Reader {
	return &Reader{bufio.NewReaderSize(in, headerBytes), most, broken}
}

// Read returns the content of the next message.
func (r *Reader) Read() ([]byte, error) {
	length, err := r.header()
	if err != nil {
		return nil, err
	}
	// The buffer of a long message grows with the bytes that arrive, not with the announced length.
	body := bytes.NewBuffer(make([]byte, 0, min(length, smallMessage)+bytes.MinRead))
	if n, err := io.CopyN(body, r.in, int64(length)); err != nil {
		return nil, fmt.Errorf("%w: a frame of %d bytes ended after %d", r.broken, length, n)
	}
	return body.Bytes(), nil
}

// header reads the headers of a message and returns the length of its content. It ignores headers other than
// Content-Length.
func (r *Reader) header() (int, error) {
	length, left := -1, headerBytes
	for {
		line, err := r.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return 0, fmt.Errorf("%w: a header is too long", r.broken)
		}
		if err != nil {
			return 0, err
		}
		if left -= len(line); left < 0 {
			return 0, fmt.Errorf("%w: the headers are too long", r.broken)
		}
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 {
			if length < 0 {
				return 0, fmt.Errorf("%w: a frame has no Content-Length", r.broken)
			}
			return length, nil
		}
		name, value, ok := bytes.Cut(text, []byte(":"))
		if !ok {
			return 0, fmt.Errorf("%w: a header has no colon", r.broken)
		}
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte("Content-Length")) {
			continue
		}
		length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || length < 0 || length > r.most {
			return 0, fmt.Errorf("%w: a message is longer than %d bytes, or of no length", r.broken, r.most)
		}
	}
}

// TryWriter is an output that can be written without waiting, which saves the wake of the Writer's goroutine.
type TryWriter interface {
	// TryWrite writes the beginning of b for which there is room, and returns its length. It is not called during a Write.
	TryWrite(b []byte) int
}

// Writer queues messages and writes them on its own goroutine, so that Write never blocks. To a [TryWriter] it writes a
// message at once if no other is queued. The goroutine ends with [Writer.Stop] or a failed write. It is safe for
// concurrent use.
type Writer struct {
	out  io.Writer
	try  TryWriter // out, or nil
	most int
	full error

	mu     sync.Mutex // guards the fields below
	queue  [][]byte
	queued int
	err    error // the reason why writing has ended

	more chan struct{} // holds a token while the queue has changed
	done chan struct{} // closed at the end of the goroutine
}

// NewWriter returns a Writer to out. It fails with full once the unwritten messages exceed most bytes.
func NewWriter(out io.Writer, most int, full error) *Writer {
	try, _ := out.(TryWriter)
	w := &Writer{out: out, try: try, most: most, full: full, more: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write queues a message. It fails if writing has ended.
func (w *Writer) Write(content []byte) error {
	frame := make([]byte, 0, len(content)+32)
	frame = append(fmt.Appendf(frame, "Content-Length: %d\r\n\r\n", len(content)), content...)
	w.mu.Lock()
	if w.err == nil && w.queued+len(frame) > w.most {
		w.err = w.full
	}
	err := w.err
	if err == nil && w.try != nil && w.queued == 0 { // no Write is in progress
		frame = frame[w.try.TryWrite(frame):]
	}
	if err == nil && len(frame) > 0 {
		w.queue = append(w.queue, frame)
		w.queued += len(frame)
	}
	w.mu.Unlock()
	if err != nil || len(frame) > 0 {
		w.wake()
	}
	return err
}

// Stop ends the writing with err, the error of later writes. Queued messages are still tried; the caller then closes
// the stream, which ends a blocked write.
func (w *Writer) Stop(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.wake()
}

// Done is closed when the Writer has ended.
func (w *Writer) Done() <-chan struct{} { return w.done }

func (w *Writer) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *Writer) run() {
	defer close(w.done)
	for range w.more {
		w.mu.Lock()
		queue, ended := w.queue, w.err
		w.queue = nil
		w.mu.Unlock()
		for _, frame := range queue {
			if _, err := w.out.Write(frame); err != nil {
				w.Stop(err)
				return
			}
			w.mu.Lock()
			w.queued -= len(frame)
			w.mu.Unlock()
		}
		if ended != nil {
			return
		}
	}
}

package dap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	godap "github.com/google/go-dap"
)

const (
	// headerBytes is the maximum size of the headers of one frame.
	headerBytes = 4 << 10
	// queueBytes is the maximum size of the frames that an adapter has not read yet.
	queueBytes = 16 << 20
)

var (
	errFrame = errors.New("the debug adapter broke the framing")
	errQueue = errors.New("the debug adapter does not read its input")
	errOver  = errors.New("the connection to the debug adapter is closed")
)

// reader reads frames of at most most bytes.
type reader struct {
	in   *bufio.Reader
	most int
}

func newReader(in io.Reader, most int) *reader {
	return &reader{bufio.NewReaderSize(in, headerBytes), most}
}

// read returns the content of the next frame.
func (r *reader) read() ([]byte, error) {
	length, err := r.header()
	if err != nil {
		return nil, err
	}
	// The buffer grows with the bytes that arrive, not with the announced length.
	var body bytes.Buffer
	if n, err := io.CopyN(&body, r.in, int64(length)); err != nil {
		return nil, fmt.Errorf("%w: a frame of %d bytes ended after %d", errFrame, length, n)
	}
	return body.Bytes(), nil
}

// header reads the headers of a frame and returns the length of its content. It ignores headers other than
// Content-Length, which go-dap's own reader refuses.
func (r *reader) header() (int, error) {
	length, left := -1, headerBytes
	for {
		line, err := r.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return 0, fmt.Errorf("%w: a header is too long", errFrame)
		}
		if err != nil {
			return 0, err
		}
		if left -= len(line); left < 0 {
			return 0, fmt.Errorf("%w: the headers are too long", errFrame)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			if length < 0 {
				return 0, fmt.Errorf("%w: a frame has no Content-Length", errFrame)
			}
			return length, nil
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return 0, fmt.Errorf("%w: a header has no colon", errFrame)
		}
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			continue
		}
		length, err = strconv.Atoi(strings.TrimSpace(value))
		if err != nil || length < 0 || length > r.most {
			return 0, fmt.Errorf("%w: a message is longer than %d bytes, or of no length", errFrame, r.most)
		}
	}
}

// writer queues frames and writes them on its own goroutine, so that write never blocks.
type writer struct {
	out io.Writer

	mu     sync.Mutex // guards the fields below
	queue  [][]byte
	queued int
	err    error // the reason why writing has ended

	more chan struct{} // holds a token while the queue has changed
	done chan struct{} // closed at the end of the goroutine
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: out, more: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// write queues a message.
func (w *writer) write(message godap.Message) error {
	var frame bytes.Buffer
	if err := godap.WriteProtocolMessage(&frame, message); err != nil {
		return err
	}
	w.mu.Lock()
	if w.err == nil && w.queued+frame.Len() > queueBytes {
		w.err = errQueue
	}
	err := w.err
	if err == nil {
		w.queue = append(w.queue, frame.Bytes())
		w.queued += frame.Len()
	}
	w.mu.Unlock()
	w.wake()
	return err
}

// stop ends the writing; the rest of the queue is dropped.
func (w *writer) stop(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.wake()
}

func (w *writer) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *writer) run() {
	defer close(w.done)
	for range w.more {
		w.mu.Lock()
		queue, err := w.queue, w.err
		w.queue = nil
		w.mu.Unlock()
		if err != nil {
			return
		}
		for _, frame := range queue {
			if _, err := w.out.Write(frame); err != nil {
				w.stop(err)
				return
			}
			w.mu.Lock()
			w.queued -= len(frame)
			w.mu.Unlock()
		}
	}
}

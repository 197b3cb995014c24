package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

const (
	// headerBytes limits the headers of one frame.
	headerBytes = 4 << 10
	// queueBytes limits the frames that a server has not read yet.
	queueBytes = 128 << 20
)

var (
	errFrame = errors.New("the language server broke the framing")
	errQueue = errors.New("the language server does not read its input")
	errOver  = errors.New("the connection to the language server is closed")
)

// frames is a jsonrpc2.ObjectStream of frames with a Content-Length. One goroutine at a time may read. Writes never
// block: one goroutine writes the queue, and ends with Close.
type frames struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader
	most int

	mu     sync.Mutex // guards the fields below
	queue  [][]byte
	queued int
	err    error // the reason why writing has ended

	more    chan struct{} // holds a token if the queue may hold a frame
	written chan struct{} // closed by the writer
	close   func()
}

// newFrames reads frames of at most most bytes from conn and writes frames to it.
func newFrames(conn io.ReadWriteCloser, most int) *frames {
	f := &frames{
		conn: conn, in: bufio.NewReaderSize(conn, headerBytes), most: most, more: make(chan struct{}, 1),
		written: make(chan struct{}),
	}
	f.close = sync.OnceFunc(func() {
		f.fail(errOver)
		_ = conn.Close()
		<-f.written
	})
	go f.write()
	return f
}

// ReadObject reads one message into v.
func (f *frames) ReadObject(v any) error {
	length, err := f.header()
	if err != nil {
		return err
	}
	// The buffer grows with the bytes that arrive, not with the announced length.
	var body bytes.Buffer
	if n, err := io.CopyN(&body, f.in, int64(length)); err != nil {
		return fmt.Errorf("%w: a frame of %d bytes ended after %d", errFrame, length, n)
	}
	if err := json.Unmarshal(body.Bytes(), v); err != nil {
		return fmt.Errorf("%w: a message is no JSON-RPC", errFrame)
	}
	return nil
}

// header reads the headers of a frame and returns the length of its body.
func (f *frames) header() (int, error) {
	length, left := -1, headerBytes
	for {
		line, err := f.in.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				return 0, fmt.Errorf("%w: a header is too long", errFrame)
			}
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
		if err != nil || length < 0 || length > f.most {
			return 0, fmt.Errorf("%w: a message is longer than %d bytes, or of no length", errFrame, f.most)
		}
	}
}

// WriteObject queues a message.
func (f *frames) WriteObject(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	frame := make([]byte, 0, len(body)+32)
	frame = append(fmt.Appendf(frame, "Content-Length: %d\r\n\r\n", len(body)), body...)
	f.mu.Lock()
	if f.err == nil && f.queued+len(frame) > queueBytes {
		f.err = errQueue
	}
	if err = f.err; err == nil {
		f.queue = append(f.queue, frame)
		f.queued += len(frame)
	}
	f.mu.Unlock()
	f.wake()
	return err
}

func (f *frames) wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *frames) fail(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.wake()
}

// write writes the queue until writing fails or Close is called.
func (f *frames) write() {
	defer close(f.written)
	for range f.more {
		f.mu.Lock()
		queue, err := f.queue, f.err
		f.queue, f.queued = nil, 0
		f.mu.Unlock()
		for _, frame := range queue {
			if _, failed := f.conn.Write(frame); failed != nil {
				f.fail(failed)
				err = failed
				break
			}
		}
		if err != nil {
			return
		}
	}
}

// Close ends reading and writing, and returns when the writer has ended.
func (f *frames) Close() error {
	f.close()
	return nil
}

package lsp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"kaged.dev/pkg/contentlength"
)

// queueBytes limits the frames that a server has not read yet.
const queueBytes = 128 << 20

var (
	errFrame = errors.New("the language server broke the framing")
	errQueue = errors.New("the language server does not read its input")
	errOver  = errors.New("the connection to the language server is closed")
)

// frames is a jsonrpc2.ObjectStream of frames with a Content-Length. One goroutine at a time may read. Writes never
// block: one goroutine writes the queue, and ends with Close.
type frames struct {
	in      *contentlength.Reader
	out     *contentlength.Writer
	results results
	close   func()
}

// newFrames reads frames of at most most bytes from conn and writes frames to it.
func newFrames(conn io.ReadWriteCloser, most int) *frames {
	f := &frames{
		in: contentlength.NewReader(conn, most, errFrame), out: contentlength.NewWriter(conn, queueBytes, errQueue),
		results: results{calls: map[uint64]json.RawMessage{}},
	}
	f.close = sync.OnceFunc(func() {
		f.out.Stop(errOver)
		_ = conn.Close()
		<-f.out.Done()
	})
	return f
}

// ReadObject reads one message into v, without the result of an expected call.
func (f *frames) ReadObject(v any) error {
	content, err := f.in.Read()
	if err != nil {
		return err
	}
	if json.Unmarshal(f.results.keep(content), v) != nil {
		return fmt.Errorf("%w: a message is no JSON-RPC", errFrame)
	}
	return nil
}

// WriteObject queues a message.
func (f *frames) WriteObject(v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.out.Write(content)
}

// Close ends reading and writing, and returns when the writer has ended.
func (f *frames) Close() error {
	f.close()
	return nil
}

package inspector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// queueBytes is the maximum size of events that are not handled yet.
const queueBytes = 64 << 20

var (
	errGone = errors.New("the runtime has closed its inspector")
	errLong = errors.New("the runtime's answer is too long")
)

// callError is an error with which the inspector answers a request.
type callError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *callError) Error() string { return e.Message }

// message is one message of an inspector.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *callError      `json:"error"`
	err    error
}

// socket is a connection to an inspector. It is safe for concurrent use.
type socket struct {
	ws   *websocket.Conn
	most int
	done chan struct{} // closed at the end of reading

	writing sync.Mutex // held during the write of a message

	mu      sync.Mutex // guards the fields below
	last    int
	waiting map[int]chan message // capacity 1 each
	events  []message
	queued  int

	more chan struct{} // holds a token when events has grown
}

// stream makes a byte stream a net.Conn without deadlines.
type stream struct{ io.ReadWriteCloser }

func (stream) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (stream) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (stream) SetDeadline(time.Time) error      { return nil }
func (stream) SetReadDeadline(time.Time) error  { return nil }
func (stream) SetWriteDeadline(time.Time) error { return nil }

// dial performs the WebSocket's handshake over conn. It closes conn if it fails.
func dial(ctx context.Context, conn io.ReadWriteCloser, path string, opts Options) (*socket, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	dialer := &websocket.Dialer{
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return stream{conn}, nil },
	}
	// The host is an address, because runtimes refuse names, which a page in a browser could use.
	ws, answer, err := dialer.DialContext(ctx, "ws://127.0.0.1"+path, opts.Dialect.header.Clone())
	if answer != nil && answer.Body != nil {
		_ = answer.Body.Close()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the runtime's inspector does not open: %w", err)
	}
	return &socket{
		ws: ws, most: opts.MessageBytes, done: make(chan struct{}), waiting: map[int]chan message{},
		more: make(chan struct{}, 1),
	}, nil
}

func (s *socket) close() { _ = s.ws.Close() }

// call sends a request and decodes its result, unless result is nil. It fails with a [callError], with errGone and with
// errLong.
func (s *socket) call(ctx context.Context, method string, params, result any) error {
	s.mu.Lock()
	s.last++
	id, answer := s.last, make(chan message, 1)
	s.waiting[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, id)
	}()
	if params == nil {
		params = struct{}{}
	}
	s.writing.Lock()
	err := s.ws.WriteJSON(map[string]any{"id": id, "method": method, "params": params})
	s.writing.Unlock()
	if err != nil {
		s.close()
		return errGone
	}
	var m message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		select { // the answer may have been the last message
		case m = <-answer:
		default:
			return errGone
		}
	}
	switch {
	case m.err != nil:
		return m.err
	case m.Error != nil:
		return m.Error
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("the runtime's answer to %s cannot be read", method)
	}
	return nil
}

// read passes answers to their requests and queues events, until the connection ends.
func (s *socket) read() {
	defer close(s.done)
	for {
		_, r, err := s.ws.NextReader()
		if err != nil {
			return
		}
		content, err := io.ReadAll(io.LimitReader(r, int64(s.most)+1))
		if err != nil {
			return
		}
		var m message
		if len(content) > s.most {
			m.ID, m.err = idOf(content, r), errLong
		} else if json.Unmarshal(content, &m) != nil {
			continue
		}
		if !s.take(m, len(content)) {
			return
		}
	}
}

// take passes on a message. It reports false if there is no room for it.
func (s *socket) take(m message, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.waiting[m.ID]; m.ID != 0 {
		if answer != nil {
			delete(s.waiting, m.ID)
			answer <- m
		}
		return true
	}
	if s.queued += size; s.queued > queueBytes {
		return false
	}
	s.events = append(s.events, m)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return true
}

// next returns the received events in their order, and false at the end of the connection.
func (s *socket) next() ([]message, bool) {
	over := false
	for {
		s.mu.Lock()
		events := s.events
		s.events, s.queued = nil, 0
		s.mu.Unlock()
		if len(events) > 0 || over {
			return events, len(events) > 0
		}
		select {
		case <-s.more:
		case <-s.done:
			over = true
		}
	}
}

var (
	idAhead  = regexp.MustCompile(`^\{"id":(\d+)`)
	idBehind = regexp.MustCompile(`"id":(\d+)\}$`)
)

// idOf reads the rest of a message that is too long and returns the id of the request that it answers, 0 for an event.
func idOf(head []byte, rest io.Reader) int {
	tail := bytes.Clone(head[len(head)-min(len(head), idBytes):])
	piece := make([]byte, 64<<10)
	for {
		n, err := rest.Read(piece)
		tail = append(tail, piece[:n]...)
		tail = tail[max(0, len(tail)-idBytes):]
		if err != nil {
			break
		}
	}
	found := idAhead.FindSubmatch(head)
	if found == nil {
		found = idBehind.FindSubmatch(tail)
	}
	if found == nil {
		return 0
	}
	id, _ := strconv.Atoi(string(found[1])) // a number that is too large belongs to no request
	return id
}

// idBytes is the number of bytes at the end of a message that are examined.
const idBytes = 64

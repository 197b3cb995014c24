package dap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	godap "github.com/google/go-dap"

	"kaged.dev/pkg/clip"
)

// ErrAdapter is the error of calls after the connection to the adapter is over: it has ended, or broke a bound.
var ErrAdapter = errors.New("the debug adapter is gone")

// errorBytes bounds the text of a refusal.
const errorBytes = 4 << 10

// Refusal is an adapter's error as its answer to a request.
type Refusal struct {
	Command, Message string
}

func (r *Refusal) Error() string { return r.Message }

// Options are the settings of a client.
type Options struct {
	// MessageBytes bounds one message of the adapter.
	MessageBytes int
	// Event is called with each event, in the order they came, by the goroutine that reads: an answer is handed
	// out after the events that came before it. It must be quick.
	Event func(name string, body json.RawMessage)
	// Request is called with each request of the adapter's, in the same way; answer may be called later, once, by any
	// goroutine. Without it all are refused.
	Request func(command string, arguments json.RawMessage, answer func(body any, err error))
}

// Client is the connection to one adapter. It is safe for concurrent use.
type Client struct {
	conn io.ReadWriteCloser
	opts Options
	out  *writer
	done chan struct{} // closed at the end of reading

	mu      sync.Mutex // guards the fields below
	seq     int
	waiting map[int]*Pending
	err     error // why the connection is over

	close func()
}

// New returns a client of an adapter that reads and writes conn, which is the client's to close from here on.
func New(conn io.ReadWriteCloser, opts Options) *Client {
	c := &Client{conn: conn, opts: opts, out: newWriter(conn), done: make(chan struct{}), waiting: map[int]*Pending{}}
	c.close = sync.OnceFunc(func() {
		c.fail(errOver)
		c.out.stop(errOver)
		_ = conn.Close()
		<-c.out.done
	})
	go c.read()
	return c
}

// Pending is a request that is not answered yet.
type Pending struct {
	c       *Client
	seq     int
	command string
	answer  chan incoming // capacity 1
}

// request is an outgoing request; its arguments are of any type, so that a zero can be sent.
type request struct {
	godap.Request
	Arguments any `json:"arguments,omitempty"`
}

// incoming is a message of an adapter.
type incoming struct {
	Seq        int             `json:"seq"`
	Type       string          `json:"type"`
	Command    string          `json:"command"`
	Event      string          `json:"event"`
	RequestSeq int             `json:"request_seq"`
	Success    bool            `json:"success"`
	Message    string          `json:"message"`
	Arguments  json.RawMessage `json:"arguments"`
	Body       json.RawMessage `json:"body"`
}

// Start sends a request. It fails with [ErrAdapter].
func (c *Client) Start(command string, arguments any) (*Pending, error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, ErrAdapter
	}
	c.seq++
	p := &Pending{c: c, seq: c.seq, command: command, answer: make(chan incoming, 1)}
	c.waiting[p.seq] = p
	c.mu.Unlock()
	message := &request{Arguments: arguments}
	message.Seq, message.Type, message.Command = p.seq, "request", command
	if err := c.out.write(message); err != nil {
		p.leave()
		c.Close()
		return nil, ErrAdapter
	}
	return p, nil
}

// leave gives up the answer.
func (p *Pending) leave() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	delete(p.c.waiting, p.seq)
}

// Wait waits for the answer and reads its body, unless that is nil. It fails with a [Refusal], with ctx's error,
// and with [ErrAdapter].
func (p *Pending) Wait(ctx context.Context, body any) error {
	select {
	case m := <-p.answer:
		return p.take(m, body)
	case <-ctx.Done():
		p.leave()
		return ctx.Err()
	case <-p.c.done:
	}
	select { // it may have been the last message
	case m := <-p.answer:
		return p.take(m, body)
	default:
		return ErrAdapter
	}
}

// take reads an answer.
func (p *Pending) take(m incoming, body any) error {
	if !m.Success {
		return &Refusal{Command: p.command, Message: reason(m)}
	}
	if body == nil {
		return nil
	}
	if len(m.Body) == 0 || string(m.Body) == "null" {
		m.Body = json.RawMessage("{}")
	}
	if err := json.Unmarshal(m.Body, body); err != nil {
		return &Refusal{Command: p.command, Message: "the answer to " + p.command + " cannot be read"}
	}
	return nil
}

// reason returns the text of a refusal.
func reason(m incoming) string {
	var body godap.ErrorResponseBody
	text := m.Message
	if json.Unmarshal(m.Body, &body) == nil && body.Error != nil && body.Error.Format != "" {
		text = body.Error.Format
		for name, value := range body.Error.Variables {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
			if len(text) > 2*errorBytes {
				break
			}
		}
	}
	if text == "" {
		text = "the adapter gives no reason"
	}
	return clip.Bytes(strings.ToValidUTF8(text, "\uFFFD"), errorBytes)
}

// Call makes a request and waits for its answer; see [Pending.Wait].
func (c *Client) Call(ctx context.Context, command string, arguments, body any) error {
	p, err := c.Start(command, arguments)
	if err != nil {
		return err
	}
	return p.Wait(ctx, body)
}

// Done is closed when the connection is over and all that came is handed out.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection is over, nil while it is not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and returns when the writer has ended.
func (c *Client) Close() { c.close() }

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// read reads messages until the connection ends or breaks a bound.
func (c *Client) read() {
	defer close(c.done)
	in := newReader(c.conn, c.opts.MessageBytes)
	for {
		content, err := in.read()
		var m incoming
		if err == nil && json.Unmarshal(content, &m) != nil {
			err = fmt.Errorf("%w: a message is no JSON of the protocol", errFrame)
		}
		if err != nil {
			c.fail(err)
			c.out.stop(err)
			_ = c.conn.Close()
			return
		}
		c.take(m)
	}
}

// take hands a message to its receiver.
func (c *Client) take(m incoming) {
	switch m.Type {
	case "event":
		c.opts.Event(m.Event, m.Body)
	case "response":
		c.mu.Lock()
		p := c.waiting[m.RequestSeq]
		delete(c.waiting, m.RequestSeq)
		c.mu.Unlock()
		if p != nil {
			p.answer <- m
		}
	case "request":
		if c.opts.Request == nil {
			c.answer(m, nil, errors.New("there is no such request"))
			return
		}
		c.opts.Request(m.Command, m.Arguments, func(body any, err error) { c.answer(m, body, err) })
	}
}

// response is an answer to the adapter; its body is of any type.
type response struct {
	godap.Response
	Body any `json:"body,omitempty"`
}

// answer answers a request of the adapter's.
func (c *Client) answer(m incoming, body any, err error) {
	answer := &response{Body: body}
	if err != nil {
		answer.Message = clip.Bytes(strings.ToValidUTF8(err.Error(), "\uFFFD"), errorBytes)
		answer.Body = godap.ErrorResponseBody{Error: &godap.ErrorMessage{Id: 1, Format: answer.Message}}
	}
	answer.Type, answer.RequestSeq, answer.Command, answer.Success = "response", m.Seq, clip.Bytes(m.Command, 100),
		err == nil
	c.mu.Lock()
	c.seq++
	answer.Seq = c.seq
	c.mu.Unlock()
	_ = c.out.write(answer) // an adapter that reads no answers is found by the next request
}

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
	"kaged.dev/pkg/contentlength"
)

// ErrAdapter is the error of calls after the end of the connection to the adapter: the adapter has ended, or exceeded a
// limit.
var ErrAdapter = errors.New("the debug adapter is gone")

// errorBytes is the maximum size of the text of a refusal.
const errorBytes = 4 << 10

// Refusal is an error with which an adapter answers a request.
type Refusal struct {
	Command, Message string
}

func (r *Refusal) Error() string { return r.Message }

// Options are the settings of a client.
type Options struct {
	// MessageBytes is the maximum size of a message of the adapter.
	MessageBytes int
	// Event receives each event, in the order of arrival, on the goroutine that reads: an answer is returned after the
	// events before it. Event must return soon.
	Event func(name string, body json.RawMessage)
	// Request receives each request of the adapter in the same way. answer may be called later, once, by any goroutine. If
	// Request is nil, all requests are refused.
	Request func(command string, arguments json.RawMessage, answer func(body any, err error))
}

// Client is the connection to one adapter. It is safe for concurrent use.
type Client struct {
	conn io.ReadWriteCloser
	opts Options
	out  *contentlength.Writer
	done chan struct{} // closed at the end of reading

	mu      sync.Mutex // guards the fields below
	seq     int
	waiting map[int]*Pending
	err     error // the reason why the connection has ended

	close func()
}

// New returns a client of an adapter that reads and writes conn. From then on only the client closes conn.
func New(conn io.ReadWriteCloser, opts Options) *Client {
	c := &Client{
		conn: conn, opts: opts, out: contentlength.NewWriter(conn, queueBytes, errQueue), done: make(chan struct{}),
		waiting: map[int]*Pending{},
	}
	c.close = sync.OnceFunc(func() {
		c.fail(errOver)
		c.out.Stop(errOver)
		_ = conn.Close()
		<-c.out.Done()
	})
	go c.read()
	return c
}

// Pending is a request without an answer yet.
type Pending struct {
	c       *Client
	seq     int
	command string
	answer  chan incoming // capacity 1
}

// request is an outgoing request. Its arguments have any type, so that a zero is sent too.
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
	if err := c.write(message); err != nil {
		p.leave()
		c.Close()
		return nil, ErrAdapter
	}
	return p, nil
}

// write queues a message.
func (c *Client) write(message any) error {
	content, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.out.Write(content)
}

// leave abandons the answer.
func (p *Pending) leave() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	delete(p.c.waiting, p.seq)
}

// Wait waits for the answer and decodes its body into body, unless body is nil. It fails with a [Refusal], with ctx's
// error, and with [ErrAdapter].
func (p *Pending) Wait(ctx context.Context, body any) error {
	select {
	case m := <-p.answer:
		return p.take(m, body)
	case <-ctx.Done():
		p.leave()
		return ctx.Err()
	case <-p.c.done:
	}
	select { // the answer may have been the last message
	case m := <-p.answer:
		return p.take(m, body)
	default:
		return ErrAdapter
	}
}

// take decodes an answer.
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

// Done is closed when the connection has ended and all received messages are handled.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns the reason why the connection has ended, nil before its end.
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

// read reads messages until the connection ends or exceeds a limit.
func (c *Client) read() {
	defer close(c.done)
	in := contentlength.NewReader(c.conn, c.opts.MessageBytes, errFrame)
	for {
		content, err := in.Read()
		var m incoming
		if err == nil && json.Unmarshal(content, &m) != nil {
			err = fmt.Errorf("%w: a message is no JSON of the protocol", errFrame)
		}
		if err != nil {
			c.fail(err)
			c.out.Stop(err)
			_ = c.conn.Close()
			return
		}
		c.take(m)
	}
}

// take passes a message to its receiver.
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

// response is an answer to the adapter. Its body has any type.
type response struct {
	godap.Response
	Body any `json:"body,omitempty"`
}

// answer answers a request of the adapter.
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
	_ = c.write(answer) // the next request detects an adapter that reads no answers
}

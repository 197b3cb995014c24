package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// TerminalEvent is an event of a [Terminal]; one field is set.
type TerminalEvent struct {
	// Output is output of the process; it may be cut inside a character.
	Output []byte
	// Replay is true for output written before the terminal was opened. An emulator must not send its answers to such
	// output.
	Replay bool
	// Position is the position of the output that follows: at the beginning, and after missing output.
	Position *apiv1.PtyPosition
	// Ended reports the end of the process and is the last event.
	Ended *apiv1.PtyEnded
	// Refused is an error for refused input or a refused size; the terminal continues.
	Refused error
	// Away is true when the connection is lost; the terminal reconnects.
	Away bool
}

// Terminal shows a background process of a session and sends it input, beside any other client. One goroutine may range
// over its events at a time; the other methods are safe for concurrent use.
type Terminal struct {
	client           *Client
	session, process string
	ctx              context.Context
	cancel           context.CancelFunc

	mu         sync.Mutex // guards the fields below
	socket     *Socket    // nil while disconnected
	offset     int64      // number of the next byte
	replayEnd  int64
	cols, rows uint32
}

// Terminal opens the terminal of a background process. offset is the first byte to show, counted in all output of the
// process; 0 stands for the retained output. It fails with not_found, gone and unavailable; if the process does not
// run, the first event is an error.
func (c *Client) Terminal(ctx context.Context, session, process string, offset int64) (*Terminal, error) {
	t := &Terminal{client: c, session: session, process: process, offset: offset}
	t.ctx, t.cancel = context.WithCancel(ctx)
	if err := t.connect(); err != nil {
		t.cancel()
		return nil, err
	}
	context.AfterFunc(t.ctx, t.hangUp)
	return t, nil
}

func (t *Terminal) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.socket != nil {
		_ = t.socket.Close()
	}
}

// connect opens a socket for terminals only, which does not attach the session.
func (t *Terminal) connect() error {
	socket, err := t.client.attach(t.ctx, t.session, "?terminals=1", nil, nil)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		_ = socket.Close()
		return t.ctx.Err()
	}
	t.socket = socket
	err = socket.Send("subscribe", map[string]any{
		"channels": []string{t.channel()}, "offsets": map[string]int64{t.channel(): t.offset},
	})
	if err == nil && t.cols > 0 {
		err = t.sendSize()
	}
	return err
}

func (t *Terminal) channel() string { return "pty:" + t.process }

// The first byte of binary frames.
const (
	ptyData  = 0x01
	ptyEvent = 0x02
)

// maxWrite is the maximum input of one frame.
const maxWrite = 32 << 10

// Write sends input to the process. While the daemon is unreachable it fails with unavailable, and the input is lost.
func (t *Terminal) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), maxWrite)]
		t.mu.Lock()
		socket := t.socket
		t.mu.Unlock()
		if socket == nil {
			return n, fault.New(fault.Unavailable, "The terminal is not connected now.")
		}
		if err := socket.sendBinary(append([]byte{ptyData}, part...)); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// Resize sets the size of the process's terminal, which all clients share; the last call decides. The size is sent
// again after an interruption.
func (t *Terminal) Resize(cols, rows int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cols, t.rows = uint32(max(cols, 1)), uint32(max(rows, 1))
	if t.socket == nil {
		return nil
	}
	return t.sendSize()
}

// sendSize sends the size. mu is held.
func (t *Terminal) sendSize() error {
	return t.socket.Send("pty.resize", map[string]any{"process_id": t.process, "cols": t.cols, "rows": t.rows})
}

// Close closes the terminal; the process continues.
func (t *Terminal) Close() { t.cancel() }

// Events yields the events of the terminal. After an interruption it reconnects and resumes at the next byte. It ends
// after the end of the process, when the terminal is closed, or with an error: process_not_found, gone and not_found.
func (t *Terminal) Events() iter.Seq2[TerminalEvent, error] {
	return func(yield func(TerminalEvent, error) bool) {
		defer t.Close()
		for t.ctx.Err() == nil {
			over, err := t.events(yield)
			if over || t.ctx.Err() != nil {
				return
			}
			if err == nil && !yield(TerminalEvent{Away: true}, nil) {
				return
			}
			if err == nil {
				err = t.reconnect()
			}
			if err != nil {
				if t.ctx.Err() == nil {
					yield(TerminalEvent{}, err)
				}
				return
			}
		}
	}
}

func (t *Terminal) reconnect() error {
	for range reconnects.Each(t.ctx) {
		if err := t.connect(); !errors.Is(err, fault.Unavailable) {
			return err
		}
	}
	return t.ctx.Err()
}

// events yields the events of the current socket until it is gone, and reports whether the terminal has ended.
func (t *Terminal) events(yield func(TerminalEvent, error) bool) (over bool, err error) {
	t.mu.Lock()
	socket := t.socket
	t.mu.Unlock()
	defer func() {
		_ = socket.Close()
		t.mu.Lock()
		t.socket = nil
		t.mu.Unlock()
	}()
	for {
		f, data, err := socket.read()
		switch {
		case err != nil:
			return false, nil
		case data == nil:
			refused, ended := refusal(f)
			if ended != nil {
				return false, ended
			}
			if refused != nil && !yield(TerminalEvent{Refused: refused}, nil) {
				return true, nil
			}
			continue
		case len(data) < 2:
			continue
		}
		if over, err := t.pass(data[0], data[1:], yield); over || err != nil {
			return over, err
		}
	}
}

// refusal returns the error of a control frame: an error about input, or one that ends the terminal.
func refusal(f Frame) (refused, ended error) {
	if f.Channel != "control" || f.Type != "error" {
		return nil, nil
	}
	err := apiFault(0, []byte(`{"error":`+string(f.Payload)+`}`))
	if subscribed, _ := fault.From(err).Details["subscribed"].(bool); subscribed {
		return err, nil
	}
	return nil, err
}

// pass yields a binary frame.
func (t *Terminal) pass(kind byte, data []byte, yield func(TerminalEvent, error) bool) (over bool, err error) {
	switch kind {
	case ptyData:
		return t.output(data, yield), nil
	case ptyEvent:
		var f Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return false, fault.Wrap(err, fault.Internal, "The daemon sent an event that is no JSON.")
		}
		switch f.Type {
		case "pty.position":
			p := &apiv1.PtyPosition{}
			if err := wirejson.Unmarshal(f.Payload, p); err != nil {
				return false, err
			}
			t.mu.Lock()
			t.offset, t.replayEnd = p.GetOffset(), p.GetReplayEnd()
			t.mu.Unlock()
			return !yield(TerminalEvent{Position: p}, nil), nil
		case "pty.ended":
			e := &apiv1.PtyEnded{}
			if err := wirejson.Unmarshal(f.Payload, e); err != nil {
				return false, err
			}
			yield(TerminalEvent{Ended: e}, nil)
			return true, nil
		}
	}
	return false, nil
}

// output yields bytes, with replayed bytes in separate events, and reports whether the caller has stopped.
func (t *Terminal) output(data []byte, yield func(TerminalEvent, error) bool) (over bool) {
	t.mu.Lock()
	old := int(min(int64(len(data)), max(0, t.replayEnd-t.offset)))
	t.offset += int64(len(data))
	t.mu.Unlock()
	if old > 0 && !yield(TerminalEvent{Output: data[:old], Replay: true}, nil) {
		return true
	}
	return old < len(data) && !yield(TerminalEvent{Output: data[old:]}, nil)
}

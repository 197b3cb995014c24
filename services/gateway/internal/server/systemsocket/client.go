package systemsocket

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// The codes of a closing frame.
const (
	codeShutdown     = "server_shutdown"
	codeIdle         = "idle_timeout"
	codeBackpressure = "backpressure"
	codePolicy       = "policy_violation"
	codeRate         = "rate_limited"
	codeSignedOut    = "signed_out"
)

// The channels of a system socket.
const (
	channelSystem  = "system"
	channelControl = "control"
)

// client is one system socket.
type client struct {
	hub    *Hub
	owner  string
	conn   *websocket.Conn // set by start
	frames *rate.Limiter   // of the client's frames
	wake   chan struct{}   // capacity 1
	left   chan struct{}   // closed when read has returned
	born   time.Time
	forget func()         // ends the watch of the caller's sign-in; set before the upgrade
	ends   sync.WaitGroup // of read and write

	mu      sync.Mutex // guards the fields below
	begun   bool       // the hello is queued
	seq     map[string]int64
	version int64 // of the last count
	early   []Frame
	queue   [][]byte
	bytes   int
	closing *apiv1.Closing
}

func newClient(h *Hub, owner string) *client {
	limit := rate.Limit(h.deps.Limits.Frames)
	if h.deps.Limits.Frames == 0 {
		limit = rate.Inf
	}
	return &client{
		hub: h, owner: owner, frames: rate.NewLimiter(limit, h.deps.Limits.FrameBurst), wake: make(chan struct{}, 1),
		left: make(chan struct{}), seq: map[string]int64{}, born: time.Now(),
	}
}

// start starts a client on an upgraded connection. It queues the hello, the count, and the frames that arrived
// since the count was queried.
func (c *client) start(conn *websocket.Conn, count Frame) {
	c.mu.Lock()
	c.conn, c.begun = conn, true
	c.push(channelSystem, frametype.SystemHello.Name, c.hub.hello())
	for _, f := range append([]Frame{count}, c.early...) {
		c.take(f)
	}
	c.early = nil
	c.mu.Unlock()
	c.ends.Add(2)
	go func() {
		defer c.ends.Done()
		defer close(c.left)
		c.read()
	}()
	go func() {
		defer c.ends.Done()
		c.write()
	}()
	go func() {
		c.ends.Wait()
		c.hub.remove(c)
	}()
}

// maxEarly is the number of frames that may wait for the upgrade. If more arrive, system.missed replaces the last.
const maxEarly = 1024

// missed tells the client that notices may have been lost.
var missed = Frame{Type: frametype.SystemMissed.Name, Payload: json.RawMessage("{}")}

// tell queues a frame, also before the upgrade.
func (c *client) tell(f Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		if len(c.early) < maxEarly {
			c.early = append(c.early, f)
		} else {
			c.early[maxEarly-1] = missed
		}
		return
	}
	c.take(f)
}

// take queues a frame, unless it is a count that is older than the last one. mu is held.
func (c *client) take(f Frame) {
	if f.Version != 0 {
		if f.Version <= c.version {
			return
		}
		c.version = f.Version
	}
	c.pushRaw(channelSystem, f.Type, f.Payload)
}

// push queues a message as a frame. mu is held.
func (c *client) push(channel, kind string, m proto.Message) {
	payload, err := wirejson.Marshal(m)
	if err == nil {
		c.pushRaw(channel, kind, payload)
	}
}

// pushRaw queues a frame. If the queue is full, it closes the socket. mu is held.
func (c *client) pushRaw(channel, kind string, payload json.RawMessage) {
	if c.closing != nil {
		return
	}
	c.seq[channel]++
	data, err := json.Marshal(struct {
		Channel string          `json:"channel"`
		Seq     int64           `json:"seq"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}{channel, c.seq[channel], kind, payload})
	if err != nil {
		return
	}
	if c.bytes += len(data); c.bytes > c.hub.deps.Limits.Events {
		c.queue, c.bytes = nil, 0
		c.closeLocked(codeBackpressure, "The client reads too slowly; connect again.")
		return
	}
	c.queue = append(c.queue, data)
	c.signal()
}

func (c *client) close(code, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked(code, reason)
}

// closeLocked starts closing the socket with a code and a reason. Only the first call counts. mu is held.
func (c *client) closeLocked(code, reason string) {
	if c.closing == nil {
		c.closing = &apiv1.Closing{Code: code, Reason: reason}
		c.signal()
	}
}

func (c *client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// read handles the client's frames until the client leaves or is silent for too long. A client may only send ping.
func (c *client) read() {
	limits := c.hub.deps.Limits
	touch := func() { _ = c.conn.SetReadDeadline(time.Now().Add(limits.Idle)) }
	touch()
	c.conn.SetReadLimit(limits.Frame)
	c.conn.SetPongHandler(func(string) error { touch(); c.spend(); return nil })
	c.conn.SetPingHandler(func(data string) error {
		touch()
		if !c.spend() {
			return nil
		}
		_ = c.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second))
		return nil
	})
	for {
		kind, r, err := c.conn.NextReader()
		var data []byte
		if err == nil {
			data, err = io.ReadAll(r)
		}
		var slow net.Error
		switch {
		case errors.As(err, &slow) && slow.Timeout():
			c.close(codeIdle, "The client was silent for too long.")
			return
		case errors.Is(err, websocket.ErrReadLimit):
			c.close(codePolicy, "The frame is larger than the limit.")
			return
		case err != nil:
			return
		}
		touch()
		switch f := new(apiv1.ClientFrame); {
		case !c.spend():
		case kind != websocket.TextMessage || wirejson.Unmarshal(data, f) != nil ||
			f.GetChannel() != channelControl || f.GetType() != "ping":
			c.close(codePolicy, "A client of the system socket sends control ping and nothing else.")
		default:
			c.mu.Lock()
			c.push(channelControl, "pong", &apiv1.Empty{})
			c.mu.Unlock()
		}
	}
}

// closingPace is the pause between two reads from a client that sends too many frames.
const closingPace = 10 * time.Millisecond

// spend counts a client's frame and reports whether the frame is handled. It closes the socket of a client that
// sends too many frames and sleeps, so that further frames wait on the client's side.
func (c *client) spend() bool {
	if c.frames.Allow() {
		return true
	}
	c.close(codeRate, "The client sends too many frames; connect again and send fewer.")
	time.Sleep(closingPace)
	return false
}

// write sends waiting frames and pings until the client has left or the closing frame is sent.
func (c *client) write() {
	defer c.conn.Close()
	limits := c.hub.deps.Limits
	ping := time.NewTicker(max(limits.Idle/3, time.Millisecond))
	defer ping.Stop()
	for {
		list, final := c.next()
		for _, data := range list {
			_ = c.conn.SetWriteDeadline(time.Now().Add(limits.Idle))
			if c.conn.WriteMessage(websocket.TextMessage, data) != nil {
				return
			}
		}
		if final != nil {
			c.goodbye(final)
			return
		}
		select {
		case <-c.wake:
		case <-ping.C:
			if c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(limits.Idle)) != nil {
				return
			}
		case <-c.left:
			return
		}
	}
}

// next removes and returns the waiting frames. It also returns the closing frame, or nil.
func (c *client) next() ([][]byte, *apiv1.Closing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.queue
	c.queue, c.bytes = nil, 0
	return list, c.closing
}

// goodbye sends the closing frame and the close, and waits up to the flush window for the client to leave.
func (c *client) goodbye(final *apiv1.Closing) {
	limits := c.hub.deps.Limits
	frame, err := wirejson.AppendFrame(nil, channelControl, c.seq[channelControl]+1, "closing", final)
	_ = c.conn.SetWriteDeadline(time.Now().Add(limits.Closing))
	if err != nil || c.conn.WriteMessage(websocket.TextMessage, frame) != nil {
		return
	}
	status := websocket.ClosePolicyViolation
	if final.GetCode() == codeShutdown {
		status = websocket.CloseGoingAway
	}
	_ = c.conn.WriteControl(
		websocket.CloseMessage, websocket.FormatCloseMessage(status, final.GetCode()), time.Now().Add(limits.Closing),
	)
	ended := time.NewTimer(limits.Flush)
	defer ended.Stop()
	select {
	case <-c.left:
	case <-ended.C:
	}
}

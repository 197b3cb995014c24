package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// sequencer publishes frames as the holder of a session does.
type sequencer struct {
	t       testing.TB
	manager *manager
	frames  *bus.Frames

	mu        sync.Mutex // guards the fields below
	epoch     int64
	published map[string][]string // every frame, by session and channel
}

func newSequencer(t testing.TB, d *daemon) *sequencer {
	return &sequencer{
		t: t, manager: d.manager, frames: d.nats.Frames(t, bus.FramesConfig{}), epoch: 1, published: map[string][]string{},
	}
}

// begin adds a session to the fake session-manager.
func (s *sequencer) begin(session string) {
	s.manager.with(func() { s.manager.seqs[session] = map[string]int64{"output": 0, "events": 0} })
}

// render appends n frames to the channel's published frames without storing them in the bus.
func (s *sequencer) render(session, name string, n, size int) (first int64, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := session + "." + name
	first = int64(len(s.published[key])) + 1
	for i := range n {
		seq := first + int64(i)
		frame, err := wirejson.AppendFrame(nil, name, seq, "message.delta",
			&apiv1.MessageDelta{MessageId: "01M", Delta: fmt.Sprintf("%d %s", seq, strings.Repeat("x", size)), Kind: "text"})
		if err != nil {
			s.t.Fatal(err)
		}
		s.published[key] = append(s.published[key], string(frame))
		if i > 0 {
			body = append(body, '\n')
		}
		body = append(body, frame...)
	}
	s.manager.with(func() { s.manager.seqs[session][name] = first + int64(n) - 1 })
	return first, body
}

// publish publishes n frames as one message.
func (s *sequencer) publish(session, name string, n int) { s.publishSized(session, name, n, 0) }

func (s *sequencer) publishSized(session, name string, n, size int) {
	s.t.Helper()
	first, body := s.render(session, name, n, size)
	s.store(session, name, first, n, body)
}

func (s *sequencer) store(session, name string, first int64, n int, body []byte) {
	s.t.Helper()
	b := bus.Batch{Session: session, Channel: name, Epoch: s.epoch, Seq: first, Count: n, Body: body}
	for {
		_, err := s.frames.Publish(context.WithoutCancel(s.t.Context()), b)
		if err == nil {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond): // the bus is unavailable
		case <-s.t.Context().Done():
			s.t.Fatalf("publishing: %v", err)
		}
	}
}

// all returns the frames of a channel from number from on.
func (s *sequencer) all(session, name string, from int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.published[session+"."+name][from-1:])
}

// ws is a client's end of a socket.
type ws struct {
	t    testing.TB
	conn *websocket.Conn
}

// wish has the parameters of an upgrade.
type wish struct {
	query     string
	header    http.Header
	protocols []string
	noCSRF    bool
}

// dial requests a socket. If the upgrade is refused, it returns nil and the answer.
func (c *client) dial(session string, w wish) (*ws, answer) {
	c.d.t.Helper()
	header := http.Header{}
	maps.Copy(header, w.header)
	if !w.noCSRF {
		header.Set("X-Kaged-CSRF", c.cookie("kaged_csrf"))
	}
	protocols := w.protocols
	if protocols == nil {
		protocols = []string{"kaged.v1"}
	}
	dialer := websocket.Dialer{Jar: c.http.Jar, Subprotocols: protocols, HandshakeTimeout: time.Minute}
	conn, resp, err := dialer.DialContext(context.WithoutCancel(c.d.t.Context()),
		"ws"+strings.TrimPrefix(c.d.base, "http")+"/api/v1/sessions/"+session+"/socket"+w.query, header)
	var got answer
	if resp != nil {
		got = answer{status: resp.StatusCode, header: resp.Header}
		if err != nil {
			body, _ := io.ReadAll(resp.Body) // the dialer keeps the beginning, which is enough
			got.body = string(body)
		}
	}
	if err != nil {
		return nil, got
	}
	c.d.t.Cleanup(func() { conn.Close() })
	return &ws{c.d.t, conn}, got
}

// socket returns an open socket.
func (c *client) socket(session string) *ws {
	c.d.t.Helper()
	s, got := c.dial(session, wish{})
	if s == nil {
		c.d.t.Fatalf("upgrade: %d %s", got.status, got.body)
	}
	return s
}

// frame is a received frame.
type frame struct {
	text    string
	Channel string          `json:"channel"`
	Seq     int64           `json:"seq"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

func (f frame) field(name string) string {
	var m map[string]any
	if json.Unmarshal(f.Payload, &m) != nil {
		return ""
	}
	return fmt.Sprint(m[name])
}

// send sends a control frame with a payload in JSON.
func (s *ws) send(frameType, payload string) {
	s.t.Helper()
	s.raw(websocket.TextMessage, fmt.Sprintf(`{"channel":"control","seq":1,"type":%q,"payload":%s}`, frameType, payload))
}

func (s *ws) raw(kind int, data string) {
	s.t.Helper()
	if err := s.conn.WriteMessage(kind, []byte(data)); err != nil {
		s.t.Fatalf("sending: %v", err)
	}
}

// next returns the next frame, or the error with which the socket ended.
func (s *ws) next() (frame, error) {
	s.t.Helper()
	kind, data, err := s.conn.ReadMessage()
	if err != nil {
		return frame{}, err
	}
	f := frame{text: string(data)}
	if err := json.Unmarshal(data, &f); err != nil || kind != websocket.TextMessage {
		s.t.Fatalf("%q is no frame: %v", data, err)
	}
	return f, nil
}

// want returns the next frame and fails the test unless it has this channel and type.
func (s *ws) want(name, frameType string) frame {
	s.t.Helper()
	f, err := s.next()
	if err != nil {
		s.t.Fatalf("waiting for %s %s: %v", name, frameType, err)
	}
	if f.Channel != name || f.Type != frameType {
		s.t.Fatalf("got %s, want %s %s", f.text, name, frameType)
	}
	return f
}

// hello sends hello and returns the welcome. seen is the JSON of resume_from_seq.
func (s *ws) hello(seen string) frame {
	s.t.Helper()
	s.send("hello", `{"resume_from_seq":`+seen+`}`)
	return s.want("control", "welcome")
}

// frames reads frames of a channel and fails the test unless they equal want byte for byte.
func (s *ws) frames(name string, want []string) {
	s.t.Helper()
	for i, w := range want {
		f, err := s.next()
		if err != nil {
			s.t.Fatalf("frame %d of %d on %s: %v", i+1, len(want), name, err)
		}
		if f.text != w {
			s.t.Fatalf("frame %d on %s is %.200q, want %.200q", i+1, name, f.text, w)
		}
	}
}

// sync proves that no frame is queued: the next frame is the pong.
func (s *ws) sync() {
	s.t.Helper()
	s.send("ping", `{}`)
	s.want("control", "pong")
}

// closed reads to the end. It fails the test unless the last frame is closing with this code and the close code is
// status.
func (s *ws) closed(code string, status int) {
	s.t.Helper()
	last := frame{}
	for {
		f, err := s.next()
		if err == nil {
			last = f
			continue
		}
		var ended *websocket.CloseError
		if !errors.As(err, &ended) || ended.Code != status {
			s.t.Errorf("the socket ended with %v, want %d", err, status)
		}
		break
	}
	if last.Type != "closing" || last.field("code") != code || last.field("reason") == "" {
		s.t.Errorf("the last frame is %s, want closing %s", last.text, code)
	}
}

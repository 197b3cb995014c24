package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/fault"
)

// Frame is one frame of a session's socket.
type Frame struct {
	Channel string          `json:"channel"`
	Seq     int64           `json:"seq"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
	// Raw is the frame as it came.
	Raw []byte `json:"-"`
}

// Socket is an attached session. One goroutine may read it at a time; writes are serialised.
type Socket struct {
	conn *websocket.Conn
	mu   sync.Mutex // guards writes
}

// Attach opens the session's socket, says hello with the sequence numbers seen so far, subscribes to output and events,
// and returns after the welcome. takeover ends another client's socket.
func (c *Client) Attach(ctx context.Context, session string, seen map[string]int64, takeover bool) (*Socket, error) {
	u := "ws" + strings.TrimPrefix(c.base, "http") + "/api/v1/sessions/" + session + "/socket"
	if takeover {
		u += "?takeover=1"
	}
	header := http.Header{"X-Kaged-CSRF": {c.csrf}, "Origin": {c.base}}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	dialer := websocket.Dialer{Jar: c.http.Jar, Subprotocols: []string{"kaged.v1"}}
	conn, resp, err := dialer.DialContext(ctx, u, header)
	if err != nil {
		if resp != nil {
			return nil, upgradeFault(resp)
		}
		return nil, fault.Wrap(err, fault.Unavailable, "The session's socket cannot be opened.")
	}
	s := &Socket{conn: conn}
	if seen == nil {
		seen = map[string]int64{}
	}
	if err = s.Send("hello", map[string]any{"resume_from_seq": seen}); err == nil {
		err = s.Send("subscribe", map[string]any{"channels": []string{"output", "events"}})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	f, err := s.Read()
	if err == nil && f.Type != "welcome" {
		err = fault.New(fault.Internal, "The socket began with %s instead of welcome.", f.Type)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func upgradeFault(resp *http.Response) error {
	defer resp.Body.Close()
	buf := make([]byte, 64<<10)
	n, _ := resp.Body.Read(buf) // gorilla keeps the first kilobyte only
	return apiFault(resp.StatusCode, buf[:n])
}

// Send writes a control frame.
func (s *Socket) Send(kind string, payload any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.WriteJSON(map[string]any{"channel": "control", "type": kind, "payload": payload})
}

// Read returns the next frame. It fails with unavailable when the socket is gone; a closing frame is returned before.
func (s *Socket) Read() (Frame, error) {
	for {
		kind, data, err := s.conn.ReadMessage()
		if err != nil {
			var closed *websocket.CloseError
			if errors.As(err, &closed) {
				return Frame{}, fault.Wrap(err, fault.Unavailable, "The daemon closed the session's socket: %s.", closed.Text)
			}
			return Frame{}, fault.Wrap(err, fault.Unavailable, "The session's socket is gone.")
		}
		if kind != websocket.TextMessage {
			continue
		}
		f := Frame{Raw: data}
		if err := json.Unmarshal(data, &f); err != nil {
			return Frame{}, fault.Wrap(err, fault.Internal, "The daemon sent a frame that is no JSON.")
		}
		return f, nil
	}
}

// Close closes the socket without ceremony; a blocked Read returns.
func (s *Socket) Close() error { return s.conn.Close() }

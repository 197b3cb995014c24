package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/wirejson"
	_ "kaged.dev/proto/gen/kaged/api/v1" // registers the messages of frames
)

// Frame is one frame of a session's socket.
type Frame struct {
	Channel string          `json:"channel"`
	Seq     int64           `json:"seq"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
	// Raw is the received bytes of the frame.
	Raw []byte `json:"-"`
}

// Message decodes the payload as the message of its type, such as *apiv1.MessageDelta. It fails with not_found for a
// type that this client does not know, and for a payload of another form.
func (f Frame) Message() (proto.Message, error) {
	for _, t := range frametype.All() {
		if t.Name != f.Type {
			continue
		}
		known, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("kaged.api.v1." + t.Message))
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "The message of %s frames is missing.", f.Type)
		}
		m := known.New().Interface()
		return m, wirejson.Unmarshal(f.Payload, m)
	}
	return nil, fault.New(fault.NotFound, "This client does not know frames of the type %q.", f.Type)
}

// Socket is an attached session. One goroutine may read it at a time; writes are serialised.
type Socket struct {
	conn *websocket.Conn
	mu   sync.Mutex // guards writes
	// Welcome is the last number of each channel when the session was attached.
	Welcome map[string]int64
}

// Attach opens the session's socket, says hello with the sequence numbers seen so far, subscribes to output and events,
// and returns after the welcome. takeover ends another client's socket. It does not come back after an interruption, as
// [Client.Follow] does.
func (c *Client) Attach(ctx context.Context, session string, seen map[string]int64, takeover bool) (*Socket, error) {
	query := ""
	if takeover {
		query = "?takeover=1"
	}
	return c.attach(ctx, session, query, seen, []string{"output", "events"})
}

// attach opens a socket and returns after the welcome.
func (c *Client) attach(
	ctx context.Context, session, query string, seen map[string]int64, channels []string,
) (*Socket, error) {
	u := "ws" + strings.TrimPrefix(c.base, "http") + "/api/v1/sessions/" + url.PathEscape(session) + "/socket" + query
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
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(err, fault.Unavailable, "The session's socket cannot be opened.")
	}
	s := &Socket{conn: conn}
	if err := s.greet(seen, channels); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// greet says hello, subscribes, and reads the welcome.
func (s *Socket) greet(seen map[string]int64, channels []string) error {
	if seen == nil {
		seen = map[string]int64{}
	}
	if err := s.Send("hello", map[string]any{"resume_from_seq": seen}); err != nil {
		return err
	}
	if len(channels) > 0 {
		if err := s.Send("subscribe", map[string]any{"channels": channels}); err != nil {
			return err
		}
	}
	f, err := s.Read()
	if err != nil {
		return err
	}
	if f.Type != "welcome" {
		return fault.New(fault.Internal, "The socket began with %s instead of welcome.", f.Type)
	}
	var welcome struct {
		ServerSeq map[string]int64 `json:"server_seq"`
	}
	if err := json.Unmarshal(f.Payload, &welcome); err != nil {
		return fault.Wrap(err, fault.Internal, "The socket's welcome cannot be read.")
	}
	s.Welcome = welcome.ServerSeq
	return nil
}

func upgradeFault(resp *http.Response) error {
	defer resp.Body.Close()
	buf := make([]byte, 64<<10)
	n, _ := resp.Body.Read(buf) // gorilla/websocket keeps the first kilobyte only
	return apiFault(resp.StatusCode, buf[:n])
}

// Send writes a control frame.
func (s *Socket) Send(kind string, payload any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.conn.WriteJSON(map[string]any{"channel": "control", "type": kind, "payload": payload})
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "The session's socket is gone.")
	}
	return nil
}

// sendBinary writes a binary frame.
func (s *Socket) sendBinary(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.WriteMessage(websocket.BinaryMessage, data); err != nil {
		return fault.Wrap(err, fault.Unavailable, "The session's socket is gone.")
	}
	return nil
}

// Read returns the next frame. It fails with unavailable when the socket is gone. A closing frame is returned before
// that.
func (s *Socket) Read() (Frame, error) {
	for {
		f, data, err := s.read()
		if err != nil || data == nil {
			return f, err
		}
	}
}

// read returns the next frame, or the bytes of a binary frame. It fails as [Socket.Read] does.
func (s *Socket) read() (f Frame, binary []byte, err error) {
	kind, data, err := s.conn.ReadMessage()
	if err != nil {
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			err = fault.Wrap(err, fault.Unavailable, "The daemon closed the session's socket: %s.", closed.Text)
			return Frame{}, nil, err
		}
		return Frame{}, nil, fault.Wrap(err, fault.Unavailable, "The session's socket is gone.")
	}
	if kind != websocket.TextMessage {
		return Frame{}, data, nil // an empty slice, not nil, for an empty frame
	}
	f.Raw = data
	if err := json.Unmarshal(data, &f); err != nil {
		return Frame{}, nil, fault.Wrap(err, fault.Internal, "The daemon sent a frame that is no JSON.")
	}
	return f, nil, nil
}

// Close closes the socket without a closing handshake; a blocked Read returns.
func (s *Socket) Close() error { return s.conn.Close() }

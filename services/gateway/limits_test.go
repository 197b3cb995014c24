package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// deadline is the timeout of a test's waits.
const deadline = time.Minute

// A client that exceeds the frame rate is closed with rate_limited, for every type of frame. A client within the
// rate keeps its socket.
func TestClientFramesAreLimited(t *testing.T) {
	t.Parallel()
	d, _ := onSession(t, setup{
		config: quick(map[string]any{"client_frames": 1, "client_burst": 20, "idle_timeout": "1m"}),
	})
	c := d.operator()
	for name, flood := range map[string]func(*ws) error{
		"pings": func(s *ws) error {
			return s.conn.WriteMessage(websocket.TextMessage, []byte(`{"channel":"control","type":"ping","payload":{}}`))
		},
		"subscriptions": func(s *ws) error {
			return s.conn.WriteMessage(websocket.TextMessage,
				[]byte(`{"channel":"control","type":"unsubscribe","payload":{"channels":["output"]}}`))
		},
		"unasked pongs of the protocol": func(s *ws) error {
			return s.conn.WriteControl(websocket.PongMessage, nil, time.Now().Add(deadline))
		},
		"pings of the protocol": func(s *ws) error {
			return s.conn.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(deadline))
		},
	} {
		s := c.socket(session)
		s.hello(`{}`)
		for range 10 {
			s.sync()
		}
		for range 50 {
			if err := flood(s); err != nil {
				break // the socket was closed
			}
		}
		s.closed("rate_limited", websocket.ClosePolicyViolation)
		<-d.manager.released
		if t.Failed() {
			t.Fatalf("after %s", name)
		}
	}
}

// Slowly sent bodies do not keep other requests from being served.
func TestTricklingBodies(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"requests": 4, "bodies": 8, "body_timeout": "1m"}})
	c := d.operator()
	d.manager.replies(&apiv1.PostMessageResponse{}, nil)
	const post = "/api/v1/sessions/01S/messages"
	var slow []net.Conn
	for range 40 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(d.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "+
			"100\r\nX-Kaged-CSRF: %s\r\n"+
			"Cookie: kaged_session=%s; kaged_csrf=%s\r\n\r\n{\"content\":", post, strings.TrimPrefix(d.base, "http://"),
			c.cookie("kaged_csrf"),
			c.cookie("kaged_session"), c.cookie("kaged_csrf")); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	for range 20 {
		if got := c.do("POST", post, `{"content":"x"}`); got.status != http.StatusAccepted {
			t.Errorf("got %d %s for a message beside bodies that trickle, want 202", got.status, got.body)
		}
		if got := c.get("/api/versions"); got.status != http.StatusOK {
			t.Errorf("got %d %s beside bodies that trickle, want 200", got.status, got.body)
		}
	}
	// The oldest body was ended for another one, and its client has received the reason.
	_ = slow[0].SetReadDeadline(time.Now().Add(deadline))
	resp, err := http.ReadResponse(bufio.NewReader(slow[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(string(body), "others wait") {
		t.Errorf("got %d %s and error %v for the oldest body, want 503 and why", resp.StatusCode, body, err)
	}
}

// Unread answers do not keep other requests from being served. Above the limit the oldest answer is cut off.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"requests": 4, "answers": 8}})
	c := d.operator()
	long := &apiv1.SessionMessage{Id: "01M", Content: strings.Repeat("x", 1<<20)}
	const size = 6 // MiB, more than the network holds for a client that does not read
	d.manager.replies(&apiv1.ListMessagesResponse{Items: slices.Repeat([]*apiv1.SessionMessage{long}, size)}, nil)
	const get = "/api/v1/sessions/01S/messages"
	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		}), err)
	}}
	var deaf []net.Conn
	for range 12 {
		conn, err := small.DialContext(t.Context(), "tcp", strings.TrimPrefix(d.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: kaged_session=%s\r\n\r\n", get,
			strings.TrimPrefix(d.base, "http://"), c.cookie("kaged_session")); err != nil {
			t.Fatal(err)
		}
		// The answer has begun; the test reads no further.
		_ = conn.SetReadDeadline(time.Now().Add(deadline))
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		deaf = append(deaf, conn)
	}
	d.manager.replies(&apiv1.ListMessagesResponse{}, nil)
	for range 20 {
		if got := c.get(get); got.status != http.StatusOK {
			t.Errorf("got %d %s beside answers that are not read, want 200", got.status, got.body)
		}
	}
	_ = deaf[0].SetReadDeadline(time.Now().Add(deadline))
	if n, err := io.Copy(io.Discard, deaf[0]); errors.Is(err, os.ErrDeadlineExceeded) || n >= size<<20 {
		t.Errorf("got %d bytes and error %v of the oldest answer, want that it was broken off", n, err)
	}
}

// A body that does not arrive within body_timeout is refused.
func TestBodyTimeout(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"body_timeout": "50ms"}})
	c := d.operator()
	r, w := io.Pipe()
	defer w.Close()
	req, err := http.NewRequestWithContext(t.Context(), "POST", d.base+"/api/v1/sessions/01S/messages", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Kaged-CSRF", c.cookie("kaged_csrf"))
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d, want 400", resp.StatusCode)
	}
}

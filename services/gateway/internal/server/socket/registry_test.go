package socket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/services/gateway/internal/core/channel"
	"kaged.dev/services/gateway/internal/server/socket"
)

// lasting is a hold that lasts as long as its socket.
type lasting struct{ ctx context.Context }

func (lasting) ServerSeq() map[string]int64 { return nil }
func (l lasting) Wait(func()) (channel.Ended, error) {
	<-l.ctx.Done()
	return channel.Ended{}, l.ctx.Err()
}

// relay is a hub with an HTTP server. A request's path is its session.
type relay struct {
	t   *testing.T
	hub *socket.Hub
	url string
}

func newRelay(t *testing.T, hold func(context.Context) channel.Hold) *relay {
	hub := socket.New(socket.Deps{
		Log:    slog.New(slog.DiscardHandler),
		Attach: func(ctx context.Context, _ string, _ bool) (channel.Hold, error) { return hold(ctx), nil },
		Follow: func(context.Context, string) (func(), error) { return func() {}, nil },
		Stored: func(context.Context, string, string, int64) iter.Seq2[channel.Batch, error] {
			return func(func(channel.Batch, error) bool) {}
		},
		Ready: func() error { return nil },
		Limits: socket.Limits{
			Sockets: 1000, Frame: 1 << 10, Output: 1 << 10, Events: 1 << 10, Control: 1 << 10,
			Idle: time.Minute, Flush: time.Millisecond, Closing: time.Second, Attach: time.Minute, Grace: time.Minute,
			Missing: time.Second,
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); hub.Run(ctx) }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		never := func(func()) (stop func()) { return func() {} }
		if err := hub.Upgrade(w, r, strings.TrimPrefix(r.URL.Path, "/"), never); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(func() { cancel(); <-done; server.Close() })
	return &relay{t, hub, "ws" + strings.TrimPrefix(server.URL, "http") + "/"}
}

// subscriber returns a socket at a session that is subscribed to output.
func (r *relay) subscriber(session string) *websocket.Conn {
	r.t.Helper()
	conn, resp, err := (&websocket.Dialer{Subprotocols: []string{socket.Protocol}}).Dial(r.url+session, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	r.t.Cleanup(func() { conn.Close() })
	for _, f := range []string{
		`{"type":"hello","payload":{}}`, `{"type":"subscribe","payload":{"channels":["output"]}}`,
		`{"type":"ping","payload":{}}`,
	} {
		if err := conn.WriteMessage(websocket.TextMessage,
			[]byte(strings.Replace(f, "{", `{"channel":"control",`, 1))); err != nil {
			r.t.Fatal(err)
		}
	}
	for kind := ""; kind != "pong"; {
		kind = r.read(conn).Type
	}
	return conn
}

type frame struct {
	Type, Session string
	Seq           int64
}

func (r *relay) read(conn *websocket.Conn) (f frame) {
	r.t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, data, err := conn.ReadMessage()
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		r.t.Fatalf("frame %q: %v", data, err)
	}
	return f
}

// publish delivers frame n of a session.
func (r *relay) publish(session string, n int64) {
	r.hub.Deliver(session, "output", channel.Batch{
		First: n, Count: 1, Epoch: 1, Data: fmt.Appendf(nil, `{"type":"message.delta","session":%q,"seq":%d}`, session, n),
	})
}

// came waits until the hub has want sockets.
func (r *relay) came(want int) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); r.hub.Count() != want; {
		if time.Now().After(end) {
			r.t.Fatalf("%d sockets, want %d", r.hub.Count(), want)
		}
		<-time.After(time.Millisecond)
	}
}

// Every socket of a session gets each frame of that session and no frame of another. A socket is in the registry
// from its upgrade until its client has left, in any way (H-STREAM-RELAY-02).
func TestTheRegistryFillsAndDrains(t *testing.T) {
	t.Parallel()
	r := newRelay(t, func(ctx context.Context) channel.Hold { return lasting{ctx} })
	const sessions, each = 50, 2
	conns := map[string][]*websocket.Conn{}
	for i := range sessions {
		session := fmt.Sprintf("s%d", i)
		for range each {
			conns[session] = append(conns[session], r.subscriber(session))
		}
	}
	r.came(sessions * each)
	relayed := func(n int64) {
		t.Helper()
		for session := range conns {
			r.publish(session, n)
		}
		for session, list := range conns {
			for i, conn := range list {
				if got := r.read(conn); got != (frame{"message.delta", session, n}) {
					t.Fatalf("socket %d of %s got %+v", i, session, got)
				}
			}
		}
	}
	relayed(1)
	// One socket of each session leaves: every second one with a close frame, the others without.
	for i := range sessions {
		session := fmt.Sprintf("s%d", i)
		gone := conns[session][0]
		conns[session] = conns[session][1:]
		if i%2 == 0 {
			_ = gone.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
				time.Now().Add(time.Minute))
		} else {
			gone.NetConn().Close()
		}
	}
	r.came(sessions)
	relayed(2)
	for _, list := range conns {
		list[0].NetConn().Close()
	}
	r.came(0)
	r.publish("s0", 3) // has no subscriber
}

package socket_test

import (
	"context"
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

// broken is a hold that makes its socket panic.
type broken struct{}

func (broken) ServerSeq() map[string]int64        { return nil }
func (broken) Wait(func()) (channel.Ended, error) { panic("boom") }

// A defect in one socket ends that socket, and not the gateway with all others.
func TestAPanicEndsOneSocket(t *testing.T) {
	t.Parallel()
	hub := socket.New(socket.Deps{
		Log:    slog.New(slog.DiscardHandler),
		Attach: func(context.Context, string, bool) (channel.Hold, error) { return broken{}, nil },
		Stored: func(context.Context, string, string, int64) iter.Seq2[channel.Batch, error] {
			return func(func(channel.Batch, error) bool) {}
		},
		Ready: func() error { return nil },
		Limits: socket.Limits{
			Sockets: 10, Frame: 1 << 10, Output: 1 << 10, Events: 1 << 10, Control: 1 << 10,
			Idle: time.Minute, Flush: time.Millisecond, Closing: time.Second, Attach: time.Second, Grace: time.Second, Missing: time.Second,
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); hub.Run(ctx) }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := hub.Upgrade(w, r, "01S"); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	conn, _, err := (&websocket.Dialer{Subprotocols: []string{socket.Protocol}}).Dial("ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := conn.ReadMessage(); err == nil {
		t.Error("the socket goes on")
	}
	cancel()
	<-done // every socket has gone
	if n := hub.Count(); n != 0 {
		t.Errorf("%d sockets are left", n)
	}
}

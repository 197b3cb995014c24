package socket_test

import (
	"context"
	"testing"

	"github.com/gorilla/websocket"

	"kaged.dev/services/gateway/internal/core/channel"
	"kaged.dev/services/gateway/internal/server/socket"
)

// broken is a hold that makes its socket panic.
type broken struct{}

func (broken) ServerSeq() map[string]int64        { return nil }
func (broken) Wait(func()) (channel.Ended, error) { panic("boom") }

// A panic in one socket closes that socket and not the gateway.
func TestAPanicEndsOneSocket(t *testing.T) {
	t.Parallel()
	r := newRelay(t, func(context.Context) channel.Hold { return broken{} })
	conn, _, err := (&websocket.Dialer{Subprotocols: []string{socket.Protocol}}).Dial(r.url+"01S", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := conn.ReadMessage(); err == nil {
		t.Error("the socket goes on")
	}
	r.came(0)
}

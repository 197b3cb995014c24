package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"kaged.dev/services/gateway/internal/core/access"
)

// exchange is the state of one request and its answer. It is the response writer of the layers below, and is used
// by the request's goroutine only.
type exchange struct {
	http.ResponseWriter
	requestID string
	identity  access.Identity // set by the layer authenticate
	status    int             // 0 until the header is written
	bytes     int64
	hijacked  bool

	server *Server
	holds  bool // the request counts as being served
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request. The layer stamp has set it.
func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	write := x.ResponseWriter.Write
	if x.holds && len(p) > smallAnswer {
		write = x.depart
	}
	n, err := write(p)
	x.bytes += int64(n)
	return n, err
}

// smallAnswer is the size in bytes up to which net/http buffers a part of an answer until the handler returns.
const smallAnswer = 4 << 10

// release ends the count of the request as being served, until again is called. Streams call it, because they last
// long.
func (x *exchange) release() (again func()) {
	if !x.holds {
		return func() {}
	}
	x.holds = false
	x.server.inFlight.Add(-1)
	return func() { x.server.inFlight.Add(1) }
}

// depart writes a part of an answer. Meanwhile the request does not count as being served, because the client may
// read slowly. The part counts as an answer being sent, so an operator whose clients read slowly loses its own
// answers first.
func (x *exchange) depart(p []byte) (int, error) {
	x.server.inFlight.Add(-1)
	defer x.server.inFlight.Add(1)
	conn := http.NewResponseController(x.ResponseWriter)
	out := x.server.departing.enter(x.identity.UserID, func() { _ = conn.SetWriteDeadline(time.Now()) })
	defer x.server.departing.leave(out)
	return x.ResponseWriter.Write(p)
}

// Hijack implements http.Hijacker for the upgrade to a WebSocket.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err == nil {
		x.hijacked = true
		x.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap returns the writer below, for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

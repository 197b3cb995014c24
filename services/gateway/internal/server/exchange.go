package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"kaged.dev/services/gateway/internal/core/access"
)

// exchange is the state of one request and its answer. It is the response writer that the layers below it see, and
// it is used by the request's goroutine only.
type exchange struct {
	http.ResponseWriter
	requestID string
	identity  access.Identity // empty until the gate has let the request in
	status    int             // 0 until the header is written
	bytes     int64
	hijacked  bool

	server *Server
	holds  bool // a place among the requests that are served
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request that has passed the outermost layer.
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

// smallAnswer is the size of a part of an answer in bytes that net/http keeps until the handler has returned.
const smallAnswer = 4 << 10

// release gives up the request's place among the served ones until the returned function is called, for an answer
// without an end.
func (x *exchange) release() (again func()) {
	if !x.holds {
		return func() {}
	}
	x.holds = false
	x.server.inFlight.Add(-1)
	return func() { x.server.inFlight.Add(1) }
}

// depart writes a part of an answer. Meanwhile the request holds no place among the served ones, because the client
// may read slowly: a client that reads no answer takes places for answers from itself first, as a client that trickles
// bodies does.
func (x *exchange) depart(p []byte) (int, error) {
	x.server.inFlight.Add(-1)
	defer x.server.inFlight.Add(1)
	conn := http.NewResponseController(x.ResponseWriter)
	out := x.server.departing.enter(x.identity.UserID, func() { _ = conn.SetWriteDeadline(time.Now()) })
	defer x.server.departing.leave(out)
	return x.ResponseWriter.Write(p)
}

// Hijack implements http.Hijacker, for the upgrade to a WebSocket.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err == nil {
		x.hijacked = true
		x.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find the writer below.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

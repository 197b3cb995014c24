package socket

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// metered is a response writer whose hijacked connection has a maximum read rate.
type metered struct {
	http.ResponseWriter
	limit *rate.Limiter
}

// Metered returns w with a maximum read rate for its hijacked connection.
func Metered(w http.ResponseWriter, l Limits) http.ResponseWriter {
	return metered{w, limiter(l.Bytes, l.ByteBurst)}
}

// Hijack implements http.Hijacker.
func (m metered) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(m.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return meteredConn{conn, m.limit}, rw, nil
}

// meteredConn is a connection with a maximum read rate.
type meteredConn struct {
	net.Conn
	limit *rate.Limiter
}

// Read implements io.Reader. It delays its return if the client is ahead of the rate.
func (c meteredConn) Read(p []byte) (int, error) {
	if c.limit.Limit() == rate.Inf {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:min(len(p), max(1, c.limit.Burst()))])
	if n > 0 {
		time.Sleep(c.limit.ReserveN(time.Now(), n).Delay())
	}
	return n, err
}

// CloseWrite ends the direction to the client, like that of net.TCPConn.
func (c meteredConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite()
}

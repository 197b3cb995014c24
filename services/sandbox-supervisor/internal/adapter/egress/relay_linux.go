package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// relay passes bytes between a program in the cage and the target of a route.
func (g *Gate) relay(ctx context.Context, client *net.TCPConn, r *route) {
	defer client.Close()
	server, err := g.dial(ctx, r)
	if err != nil {
		reset(client)
		if ctx.Err() == nil {
			g.deny(r.target(), err.Error())
		}
		return
	}
	defer server.Close()
	p := &pair{client: client, server: server}
	defer context.AfterFunc(ctx, p.reset)()
	defer p.watch(g.opts.IdleTimeout)()

	// The server may speak first: its bytes are passed while the client is silent.
	var back sync.WaitGroup
	back.Go(func() { p.carry(client, server) })
	defer back.Wait()
	g.follow(p, r)
}

// refusal is a refused connection: its target and the reason.
type refusal struct{ target, why string }

// follow relays the client's bytes and checks each server name among them. On a route by address it relays only.
func (g *Gate) follow(p *pair, r *route) {
	c := &clientStream{conn: p.client}
	s, refused := preface{}, (*refusal)(nil)
	for first := true; ; first = false {
		if r.host != "" {
			s, refused = g.message(c, r, p.answered)
		}
		if refused == nil && first {
			g.attempts.add(r.target(), true, r.rule)
		}
		var err error
		switch {
		case refused != nil:
		case s.protocol == "HTTP":
			err = c.request(p.server, s)
		case s.protocol == "TLS":
			if err = c.pass(p.server, int64(s.head)); err == nil {
				refused = g.secondHello(p, c, r)
			}
		}
		switch {
		case errors.Is(err, errChunks):
			refused = &refusal{r.target(), fmt.Sprintf("the request to %s cannot be followed: %s", r.target(), err)}
		case err != nil && !errors.Is(err, io.EOF):
			p.reset()
			return
		}
		if refused != nil {
			p.reset()
			g.deny(refused.target, refused.why)
			return
		}
		if s.protocol != "HTTP" || err != nil {
			break
		}
	}
	if c.pass(p.server, int64(len(c.buffered))) != nil {
		p.reset()
		return
	}
	p.carry(p.server, p.client)
}

// message reads the client's bytes until the server name is known; they are then in c.buffered. That holds at most
// empty lines if the client closes or breaks the connection first.
func (g *Gate) message(c *clientStream, r *route, answered func() bool) (preface, *refusal) {
	timed := false
	for {
		begun := len(bytes.TrimLeft(c.buffered, "\r\n")) > 0
		if begun && !timed {
			timed = true
			_ = c.conn.SetReadDeadline(time.Now().Add(g.opts.HelloTimeout)) // fails only if the next read fails too
		}
		s, unclear := sniff(c.buffered, answered())
		if errors.Is(unclear, errMore) {
			err := c.more()
			switch {
			case err == nil:
				continue
			case errors.Is(err, os.ErrDeadlineExceeded):
				return s, &refusal{r.target(), fmt.Sprintf("the program sent no server name to %s in time", r.target())}
			case !errors.Is(err, io.EOF): // the connection is broken
				c.buffered = nil
				return preface{}, nil
			case !begun:
				return preface{}, nil
			}
			s, unclear = sniff(append(slices.Clip(c.buffered), "\r\n\r\n"...), answered())
			if unclear != nil || s.protocol != "" {
				unclear = errors.New("it ends before the server name")
			}
		}
		if unclear != nil {
			return s, &refusal{r.target(), fmt.Sprintf("the request to %s cannot be checked: %s", r.target(), unclear)}
		}
		_ = c.conn.SetReadDeadline(time.Time{}) // as above
		return s, check(s, r)
	}
}

// secondHello checks a second ClientHello, which a server requests by a HelloRetryRequest: it must name the same
// server. It returns nil once the following bytes cannot be a ClientHello.
func (g *Gate) secondHello(p *pair, c *clientStream, r *route) *refusal {
	const changeCipher, alert, enough = 20, 21, 6 // record types, and the bytes that identify a ClientHello
	for {
		if c.need(recordHeader) != nil {
			return nil
		}
		kind, length := c.buffered[0], swap(c.buffered[3:])
		if kind == changeCipher && length == 1 || kind == alert && length == 2 {
			if c.pass(p.server, int64(recordHeader+length)) != nil {
				return nil
			}
			continue
		}
		if kind != recordHandshake || c.need(recordHeader+min(length, enough)) != nil {
			return nil
		}
		// An encrypted record may share the first byte, but is never shorter than six and cannot share all six.
		payload := c.buffered[recordHeader:]
		if length == 0 || payload[0] != helloClient ||
			length >= enough && (payload[1] != 0 || payload[4] != 3 || payload[5] > 4) {
			return nil
		}
		s, refused := g.message(c, r, func() bool { return false }) // TLS: answered bytes exclude no hello
		if refused == nil {
			_ = c.pass(p.server, int64(s.head)) // after a failed write the next one fails too
		}
		return refused
	}
}

// check compares the server names of a client with the rule.
func check(s preface, r *route) *refusal {
	if s.protocol == "" {
		return nil
	}
	if len(s.names) == 0 {
		return &refusal{r.target(), fmt.Sprintf("the program names no server in its %s to %s; have it send the name",
			s.protocol, r.target())}
	}
	for _, name := range s.names {
		if name != r.host {
			target := hostPort(printable(name), r.port)
			return &refusal{target, fmt.Sprintf("the program asked for %s by %s in a connection to %s",
				printable(name), s.protocol, r.target())}
		}
	}
	return nil
}

// pair is the two connections of a relay.
type pair struct{ client, server *net.TCPConn }

// carry copies src to dst, with splice(2) where possible, and then closes dst for writing. On an error it resets both.
func (p *pair) carry(dst, src *net.TCPConn) {
	if _, err := io.Copy(dst, src); err != nil || dst.CloseWrite() != nil {
		p.reset()
	}
}

// reset resets both connections.
func (p *pair) reset() {
	reset(p.client)
	reset(p.server)
}

// watch resets both connections after idle without traffic. stop ends the watch.
func (p *pair) watch(idle time.Duration) (stop func()) {
	var mu sync.Mutex // guards the variables below
	var timer *time.Timer
	stopped := false
	moved := p.moved()
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(idle, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		now := p.moved()
		if now == moved {
			p.reset()
			return
		}
		moved = now
		timer.Reset(idle)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// answered reports whether the server has sent any byte.
func (p *pair) answered() bool {
	info, err := tcpInfo(p.server)
	return err == nil && info.Bytes_received > 0
}

// moved returns the bytes sent and received on both connections.
func (p *pair) moved() (bytes uint64) {
	for _, conn := range []*net.TCPConn{p.client, p.server} {
		if info, err := tcpInfo(conn); err == nil {
			bytes += info.Bytes_acked + info.Bytes_received
		}
	}
	return bytes
}

// tcpInfo returns the kernel's figures for a connection.
func tcpInfo(conn *net.TCPConn) (info *unix.TCPInfo, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if failed != nil {
		return nil, failed
	}
	return info, err
}

// reset closes a connection with RST, so that the peer sees a failure and not an end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails only on a closed connection
	conn.Close()
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

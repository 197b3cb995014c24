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

// relay passes bytes between a program in the cage and what a route leads to.
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

	// The server may be the one who speaks first: what it says is passed while the client is silent.
	var back sync.WaitGroup
	back.Go(func() { p.carry(client, server) })
	defer back.Wait()
	g.follow(p, r)
}

// refusal is why a connection is not let through, and what it would have led to.
type refusal struct{ target, why string }

// follow passes what the program says, and looks at it wherever it may say whom it calls. A route by address it only passes.
func (g *Gate) follow(p *pair, r *route) {
	v := &voice{conn: p.client}
	s, refused := speech{}, (*refusal)(nil)
	for first := true; ; first = false {
		if r.host != "" {
			s, refused = g.message(v, r, p.answered)
		}
		if refused == nil && first {
			g.attempts.add(r.target(), true, r.rule)
		}
		var err error
		switch {
		case refused != nil:
		case s.protocol == "HTTP":
			err = v.request(p.server, s)
		case s.protocol == "TLS":
			if err = v.pass(p.server, int64(s.head)); err == nil {
				refused = g.second(p, v, r)
			}
		}
		switch {
		case errors.Is(err, errChunks):
			refused = &refusal{r.target(), fmt.Sprintf("what the program says to %s cannot be followed: %s", r.target(), err)}
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
	if v.pass(p.server, int64(len(v.heard))) != nil {
		p.reset()
		return
	}
	p.carry(p.server, p.client)
}

// message reads what a client says until it is clear whom it calls, which is then in v.heard: nothing, or empty lines, for a client
// that closes or breaks without a word.
func (g *Gate) message(v *voice, r *route, answered func() bool) (speech, *refusal) {
	timed := false
	for {
		begun := len(bytes.TrimLeft(v.heard, "\r\n")) > 0
		if begun && !timed {
			timed = true
			_ = v.conn.SetReadDeadline(time.Now().Add(g.opts.HelloTimeout)) // fails only where the next read does
		}
		s, unclear := listen(v.heard, answered())
		if errors.Is(unclear, errMore) {
			err := v.more()
			switch {
			case err == nil:
				continue
			case errors.Is(err, os.ErrDeadlineExceeded):
				return s, &refusal{r.target(), fmt.Sprintf("the program did not say in time whom it calls at %s", r.target())}
			case !errors.Is(err, io.EOF): // nobody is there any more
				v.heard = nil
				return speech{}, nil
			case !begun:
				return speech{}, nil
			}
			if s, unclear = listen(append(slices.Clip(v.heard), "\r\n\r\n"...), answered()); unclear != nil || s.protocol != "" {
				unclear = errors.New("it ends before it has said whom it calls")
			}
		}
		if unclear != nil {
			return s, &refusal{r.target(), fmt.Sprintf("what the program says to %s cannot be checked: %s", r.target(), unclear)}
		}
		_ = v.conn.SetReadDeadline(time.Time{}) // likewise
		return s, judge(s, r)
	}
}

// second looks at what follows a ClientHello as far as it may be another, for which a server can ask (HelloRetryRequest): that
// must call the same server.
func (g *Gate) second(p *pair, v *voice, r *route) *refusal {
	const changeCipher, alert, enough = 20, 21, 6 // types of records, and how many bytes of a ClientHello tell it
	for {
		if v.need(recordHeader) != nil {
			return nil
		}
		kind, length := v.heard[0], swap(v.heard[3:])
		if kind == changeCipher && length == 1 || kind == alert && length == 2 {
			if v.pass(p.server, int64(recordHeader+length)) != nil {
				return nil
			}
			continue
		}
		if kind != recordHandshake || v.need(recordHeader+min(length, enough)) != nil {
			return nil
		}
		// What is encrypted may begin with the same byte, but not with the same six, and is never shorter.
		payload := v.heard[recordHeader:]
		if length == 0 || payload[0] != helloClient || length >= enough && (payload[1] != 0 || payload[4] != 3 || payload[5] > 4) {
			return nil
		}
		s, refused := g.message(v, r, func() bool { return false }) // what a server of TLS says changes nothing
		if refused == nil {
			_ = v.pass(p.server, int64(s.head)) // what follows fails likewise
		}
		return refused
	}
}

// judge holds what a client says against the rule it came by.
func judge(s speech, r *route) *refusal {
	if s.protocol == "" {
		return nil
	}
	if len(s.names) == 0 {
		return &refusal{r.target(), fmt.Sprintf("the program names no server in its %s to %s, so it is not clear whom it calls; have it send the name", s.protocol, r.target())}
	}
	for _, name := range s.names {
		if name != r.host {
			target := hostPort(printable(name), r.port)
			return &refusal{target, fmt.Sprintf("the program asked for %s by %s in a connection to %s", printable(name), s.protocol, r.target())}
		}
	}
	return nil
}

// pair is the two connections of a relay.
type pair struct{ client, server *net.TCPConn }

// carry passes what src says to dst, in the kernel where it can, and the end of it. If that fails it ends both.
func (p *pair) carry(dst, src *net.TCPConn) {
	if _, err := io.Copy(dst, src); err != nil || dst.CloseWrite() != nil {
		p.reset()
	}
}

// reset ends both connections, as a broken line does.
func (p *pair) reset() {
	reset(p.client)
	reset(p.server)
}

// watch ends both connections when nothing has moved for idle. The function it returns ends the watch.
func (p *pair) watch(idle time.Duration) (stop func()) {
	var mu sync.Mutex // guards what follows
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

// answered reports whether the server has said anything.
func (p *pair) answered() bool {
	info, err := tcpInfo(p.server)
	return err == nil && info.Bytes_received > 0
}

// moved counts what has come and gone on both connections.
func (p *pair) moved() (bytes uint64) {
	for _, conn := range []*net.TCPConn{p.client, p.server} {
		if info, err := tcpInfo(conn); err == nil {
			bytes += info.Bytes_acked + info.Bytes_received
		}
	}
	return bytes
}

// tcpInfo returns what the kernel knows of a connection.
func tcpInfo(conn *net.TCPConn) (info *unix.TCPInfo, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); failed != nil {
		return nil, failed
	}
	return info, err
}

// reset closes a connection so that the other end sees it broken and not ended.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails only on one that is closed
	conn.Close()
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

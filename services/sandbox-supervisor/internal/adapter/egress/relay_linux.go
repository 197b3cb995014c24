package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	first, verdict := g.first(client, r)
	if verdict != nil {
		p.reset()
		g.deny(verdict.target, verdict.why)
		return
	}
	g.attempts.add(r.target(), true, r.rule)
	if len(first) > 0 {
		if _, err := server.Write(first); err != nil {
			p.reset()
			return
		}
	}
	p.carry(server, client)
}

// refusal is why a connection is not let through, and what it would have led to.
type refusal struct{ target, why string }

// first reads what a client says until it is clear whom it calls, and returns it: nothing for a client that closes or breaks
// without a word. For a route by address it reads nothing.
func (g *Gate) first(client *net.TCPConn, r *route) ([]byte, *refusal) {
	if r.host == "" {
		return nil, nil
	}
	said := make([]byte, 0, 4096)
	for {
		n, err := client.Read(said[len(said):cap(said)])
		if n > 0 && len(said) == 0 {
			_ = client.SetReadDeadline(time.Now().Add(g.opts.HelloTimeout)) // fails only where the next read does
		}
		said = said[:len(said)+n]
		if len(said) == 0 && err != nil {
			return nil, nil
		}
		speech, unclear := listen(said)
		if errors.Is(unclear, errMore) && err == io.EOF {
			if speech, unclear = listen(append(slices.Clip(said), "\r\n\r\n"...)); unclear != nil {
				unclear = errors.New("it ends before it has said whom it calls")
			}
		}
		switch {
		case unclear == nil:
			if refused := judge(speech, r); refused != nil {
				return nil, refused
			}
			_ = client.SetReadDeadline(time.Time{}) // likewise
			return said, nil
		case !errors.Is(unclear, errMore):
			return nil, &refusal{r.target(), fmt.Sprintf("what the program says to %s cannot be checked: %s", r.target(), unclear)}
		case err != nil:
			return nil, &refusal{r.target(), fmt.Sprintf("the program did not say in time whom it calls at %s", r.target())}
		}
		if len(said) == cap(said) {
			said = slices.Grow(said, len(said))
		}
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

// moved counts what has come and gone on both connections.
func (p *pair) moved() (bytes uint64) {
	for _, conn := range []*net.TCPConn{p.client, p.server} {
		raw, err := conn.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				bytes += info.Bytes_acked + info.Bytes_received
			}
		})
	}
	return bytes
}

// reset closes a connection so that the other end sees it broken and not ended.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails only on one that is closed
	conn.Close()
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

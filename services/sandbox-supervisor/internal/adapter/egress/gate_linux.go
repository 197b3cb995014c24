package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// Gate is the gate of one cage.
type Gate struct {
	opts     Options
	table    *table
	attempts *attempts
	unrouted *unrouted
	slots    chan struct{} // one per open connection

	wg sync.WaitGroup // of every goroutine started by Serve
}

// New returns the gate of a cage with these rules.
func New(rules []cage.Rule, opts Options) *Gate {
	g := &Gate{
		opts: opts, table: newTable(rules, opts.Credentials), attempts: newAttempts(opts.Attempt),
		slots: make(chan struct{}, opts.Connections),
	}
	g.unrouted = newUnrouted(
		opts.busy,
		func(target string, n uint64) { g.attempts.addMany(target, false, whyUDP, int64(n)) },
	)
	return g
}

// Plan returns the addresses and listeners to set up in the cage. The result is constant.
func (g *Gate) Plan() netns.Plan { return g.table.plan }

// Began records that a command runs in the cage. From then on refusals that only the kernel sees are polled once a
// second, until Options.Busy is false.
func (g *Gate) Began() { g.unrouted.began() }

// Ended records that a command has ended, and returns when all its attempts are reported. It reads two small files of
// /proc, after waiting for Serve, which must therefore be called.
func (g *Gate) Ended() {
	g.unrouted.ended()
	g.attempts.settle()
}

// Serve serves the sockets that Setup bound in the cage, which it owns from here on. It returns after ctx ends, with
// all connections closed and all attempts reported; the packet socket and the counters are closed by
// Options.Background. It fails at once for an unknown socket. Serve is called once.
func (g *Gate) Serve(ctx context.Context, fds []int) error {
	sockets, err := open(fds)
	if err != nil {
		g.unrouted.watch(nil)
		return err
	}
	g.unrouted.watch(sockets.counters)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, l := range sockets.streams {
		at := l.Addr().(*net.TCPAddr).AddrPort()
		at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		route := g.table.routes[at]
		switch {
		case route == nil && at == netns.Resolver:
			g.wg.Go(func() { g.accept(ctx, l, g.answerStream) })
		case route == nil:
			err = fmt.Errorf("a listener at %s has no rule", at)
			stop()
		case route.credential != nil:
			g.wg.Go(func() { g.serveCredential(ctx, l, route) })
		default:
			g.wg.Go(func() { g.accept(ctx, l, func(ctx context.Context, conn *net.TCPConn) { g.relay(ctx, conn, route) }) })
		}
	}
	for _, conn := range sockets.datagrams {
		g.wg.Go(func() { g.answerDatagrams(ctx, conn) })
	}
	if sockets.watch != nil {
		g.wg.Go(func() { g.watch(ctx, sockets.watch) })
	}
	<-ctx.Done()
	sockets.close()
	g.wg.Wait()
	g.unrouted.close()
	// Closing the packet socket waits 5 to 30 ms for an RCU grace period; closing the last counter frees the cage's
	// /proc.
	g.opts.later(sockets.closeLate)
	g.attempts.close()
	return err
}

// sockets are the sockets of a cage, and its counters.
type sockets struct {
	streams   []*net.TCPListener
	datagrams []net.PacketConn
	watch     *os.File   // the packet socket, or nil
	counters  []*os.File // counters of the cage's /proc/net
}

// open turns descriptors into sockets. On an error it closes all of them.
func open(fds []int) (*sockets, error) {
	s := &sockets{}
	var failed error
	for _, fd := range fds {
		// add leaves no descriptor open on an error: net works on a copy and closes the file, os takes the descriptor
		// over.
		if err := s.add(fd); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		s.close()
		s.closeLate()
		return nil, fmt.Errorf("a cage's sockets: %w", failed)
	}
	return s, nil
}

func (s *sockets) add(fd int) error {
	file := os.NewFile(uintptr(fd), "socket")
	if file == nil {
		return fmt.Errorf("%d is no descriptor", fd)
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if errors.Is(err, unix.ENOTSOCK) {
		s.counters = append(s.counters, file)
		return nil
	}
	if err == nil && domain == unix.AF_PACKET {
		s.watch = file
		return nil
	}
	defer file.Close()
	if err != nil {
		return err
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return err
	}
	if kind == unix.SOCK_DGRAM {
		conn, err := net.FilePacketConn(file)
		if err == nil {
			s.datagrams = append(s.datagrams, conn)
		}
		return err
	}
	l, err := net.FileListener(file)
	if err != nil {
		return err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		l.Close()
		return fmt.Errorf("a listener of %s", l.Addr().Network())
	}
	s.streams = append(s.streams, tcp)
	return nil
}

// closeLate closes the sockets that close leaves open.
func (s *sockets) closeLate() {
	if s.watch != nil {
		s.watch.Close()
	}
	for _, file := range s.counters {
		file.Close()
	}
}

// close closes all sockets but the packet socket and the counters, and ends reads of the packet socket.
func (s *sockets) close() {
	for _, l := range s.streams {
		l.Close()
	}
	for _, conn := range s.datagrams {
		conn.Close()
	}
	if s.watch != nil {
		_ = s.watch.SetReadDeadline(time.Unix(1, 0)) // ends its reader
	}
}

// again is the pause after a failed accept, for example without free descriptors.
const again = 50 * time.Millisecond

// accept calls serve for each connection of a listener, in a goroutine of its own. serve closes the connection.
func (g *Gate) accept(ctx context.Context, l *net.TCPListener, serve func(context.Context, *net.TCPConn)) {
	var pace pace
	for {
		pace.rest(ctx)
		conn, err := g.next(ctx, l)
		if err != nil {
			return
		}
		g.wg.Go(func() {
			defer func() { <-g.slots }()
			serve(ctx, conn)
		})
	}
}

// next returns the next connection of a listener and takes a slot for it. Connections without a free slot are reset and
// reported. It fails when the listener is closed.
func (g *Gate) next(ctx context.Context, l *net.TCPListener) (*net.TCPConn, error) {
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil {
			g.opts.Log.Warn("cannot accept a connection of a cage", "error", err)
			if !retry.Wait(ctx, again) {
				return nil, ctx.Err()
			}
			continue
		}
		select {
		case g.slots <- struct{}{}:
			return conn, nil
		default:
		}
		reset(conn)
		to := l.Addr().String()
		if route := g.table.routes[netip.MustParseAddrPort(to)]; route != nil {
			to = route.target()
		}
		g.deny(to, fmt.Sprintf("the cage has %d connections already (net_connections)", cap(g.slots)))
	}
}

// deny reports a refused attempt.
func (g *Gate) deny(target, why string) { g.attempts.add(target, false, why) }

// noRule is the reason for refusing a target without a rule.
func noRule(target string) string { return "net.allow has no rule for " + target }

// watch reports connection attempts to addresses and ports without a rule, which the kernel refuses.
func (g *Gate) watch(ctx context.Context, socket *os.File) {
	packet := make([]byte, 256)
	var pace pace
	for {
		if pace.rest(ctx); pace.done == 1 { // at most once a second
			g.attempts.lost(int64(dropped(socket)))
		}
		n, err := socket.Read(packet)
		if err != nil {
			return
		}
		to, ok := netns.Destination(packet[:n])
		if !ok || g.table.routes[to] != nil {
			continue
		}
		target := to.String()
		if host := g.table.hosts[to.Addr()]; host != "" {
			target = hostPort(host, to.Port())
		}
		g.deny(target, noRule(target))
	}
}

// dropped returns the number of packets that a packet socket has dropped since the last call.
func dropped(socket *os.File) (n int) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails only on a closed socket
		if stats, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n = int(stats.Drops)
		}
	})
	return n
}

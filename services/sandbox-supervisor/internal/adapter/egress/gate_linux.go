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
	slots    chan struct{} // one for each connection

	wg sync.WaitGroup // every goroutine of Serve
}

// New returns a gate for a cage with these rules.
func New(rules []cage.Rule, opts Options) *Gate {
	g := &Gate{
		opts: opts, table: newTable(rules, opts.Credentials), attempts: newAttempts(opts.Attempt),
		slots: make(chan struct{}, opts.Connections),
	}
	g.unrouted = newUnrouted(opts.busy, func(target string, n uint64) { g.attempts.addMany(target, false, whyUDP, int64(n)) })
	return g
}

// Plan returns what Setup is to set up in the cage. It is the same each time.
func (g *Gate) Plan() netns.Plan { return g.table.plan }

// Began takes note that a command runs in the cage. What the kernel refuses without anybody seeing it is told at least once a second
// from then on, until no command runs any more (Options.Busy).
func (g *Gate) Began() { g.unrouted.began() }

// Ended takes note that a command is gone. When it returns everything is told that is known to have been tried. That takes it as long as
// reading two small files of /proc, and at the very beginning as long as it takes Serve to begin, without which it does not return.
func (g *Gate) Ended() {
	g.unrouted.ended()
	g.attempts.settle()
}

// Serve serves what Setup returned in the cage, which is its own from here on. It works until ctx ends and returns when
// every connection is closed and every attempt is told; what sees and counts attempts is closed later (Options.Background). It fails at once
// if a socket is none of Setup's. A gate serves once.
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
	// The kernel lets go of the socket that watches only when every processor has been seen to be done with it, which takes it 5 to
	// 30 ms, and with the counters the last of the cage's /proc goes.
	g.opts.later(sockets.closeLate)
	g.attempts.close()
	return err
}

// sockets are a cage's sockets.
type sockets struct {
	streams   []*net.TCPListener
	datagrams []net.PacketConn
	watch     *os.File   // nil for none
	counters  []*os.File // no sockets
}

// open makes sockets of descriptors and closes all of them if it cannot.
func open(fds []int) (*sockets, error) {
	s := &sockets{}
	var failed error
	for _, fd := range fds {
		// The packages net and os work with copies of descriptors and with the descriptor itself, in this order.
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

// closeLate closes what close does not.
func (s *sockets) closeLate() {
	if s.watch != nil {
		s.watch.Close()
	}
	for _, file := range s.counters {
		file.Close()
	}
}

// close closes all but the counters and the one that watches, whose reader it ends.
func (s *sockets) close() {
	for _, l := range s.streams {
		l.Close()
	}
	for _, conn := range s.datagrams {
		conn.Close()
	}
	if s.watch != nil {
		_ = s.watch.SetReadDeadline(time.Unix(1, 0)) // its reader ends
	}
}

// again is how long accepting rests when the system has no descriptor for a connection.
const again = 50 * time.Millisecond

// accept hands each connection of a listener to serve, which closes it, in a goroutine of its own.
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

// next returns the next connection of a listener that there is a slot for, which is taken; others it refuses. It fails when
// the listener is closed.
func (g *Gate) next(ctx context.Context, l *net.TCPListener) (*net.TCPConn, error) {
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil {
			g.opts.Log.Warn("a connection out of a cage cannot be accepted", "error", err)
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

// deny records that something was not let through.
func (g *Gate) deny(target, why string) { g.attempts.add(target, false, why) }

// noRule is why something is denied that no rule names.
func noRule(target string) string { return "net.allow has no rule for " + target }

// watch records what is tried at addresses and ports where no rule is, and which the kernel refuses.
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

// dropped returns how many packets a watching socket had no room for since it was asked last.
func dropped(socket *os.File) (n int) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails only on a socket that is closed
		if stats, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n = int(stats.Drops)
		}
	})
	return n
}

package netns

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// backlog is the maximum number of connections that wait to be accepted.
const backlog = 512

// Setup sets up this process's network namespace, unless it is in use, and returns its sockets: those of Datagrams,
// those of Streams in their order, and, if the kernel supports it, one that sees attempts to connect elsewhere (see
// watch). They are non-blocking. They are followed by the files that count UDP without a route (see Unrouted), one for
// each family in which only UDP can lack a route. All have close-on-exec, and the caller closes them. Setup needs
// CAP_NET_ADMIN, CAP_NET_RAW and CAP_NET_BIND_SERVICE over the namespace, and its /proc. An error leaves no descriptor
// open.
func Setup(plan Plan) (fds []int, err error) {
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			fds = nil
		}
	}()
	counters, err := routes(plan)
	if err != nil {
		return nil, err
	}
	for _, at := range plan.Datagrams {
		fd, err := socket(at, unix.SOCK_DGRAM)
		if err != nil {
			return fds, fmt.Errorf("bind UDP %s: %w", at, err)
		}
		fds = append(fds, fd)
	}
	for _, at := range plan.Streams {
		fd, err := socket(at, unix.SOCK_STREAM)
		if err != nil {
			return fds, fmt.Errorf("bind TCP %s: %w", at, err)
		}
		fds = append(fds, fd)
		if err := unix.Listen(fd, backlog); err != nil {
			return fds, fmt.Errorf("listen on %s: %w", at, err)
		}
	}
	if fd, err := watch(); err == nil {
		fds = append(fds, fd)
	}
	for _, name := range counters {
		if fd, err := openCounters(name); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// routes makes the addresses of plan addresses of this namespace. It returns the counters of the families in which TCP
// always has a route, so that they count only UDP.
func routes(plan Plan) (counters []string, err error) {
	l, err := openLink()
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	defer l.close()
	if err := l.up(); err != nil {
		return nil, fmt.Errorf("loopback up: %w", err)
	}
	if err := l.address(Own); err != nil {
		return nil, fmt.Errorf("address %s: %w", Own, err)
	}
	if err := l.local(Pool, unix.RT_TABLE_LOCAL); err != nil {
		return nil, fmt.Errorf("route %s: %w", Pool, err)
	}
	for _, addr := range plan.Addresses {
		// A route and not an address, because an IPv6 address is unusable for some time after it was added.
		if err := l.local(netip.PrefixFrom(addr, addr.BitLen()), unix.RT_TABLE_LOCAL); err != nil {
			return nil, fmt.Errorf("address %s: %w", addr, err)
		}
	}
	// Without it refused connections are only not seen.
	if err := l.everything4(plan.Addresses); err == nil {
		counters = append(counters, counters4)
	}
	if err := l.everything6(); err == nil {
		counters = append(counters, counters6)
	}
	return counters, nil
}

// socket returns a socket bound to at.
func socket(at netip.AddrPort, kind int) (int, error) {
	fd, err := unix.Socket(int(family(at.Addr())), kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	var name unix.Sockaddr = &unix.SockaddrInet4{Port: int(at.Port())}
	if in4, ok := name.(*unix.SockaddrInet4); ok && at.Addr().Is4() {
		in4.Addr = at.Addr().As4()
	} else {
		name = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
		// For IPv6 a route does not suffice.
		err = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
	}
	if err == nil {
		err = unix.Bind(fd, name)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

package netns

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait to be accepted.
const backlog = 512

// Setup sets up this process's network namespace, where it refuses one that is in use, and returns its sockets: those of Datagrams, those of
// Streams in their order, and where the kernel can give it one that sees what is tried elsewhere (see watch). They do not
// block, are closed on exec and are the caller's to close. Setup needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_NET_BIND_SERVICE over
// the namespace. After an error no socket is left.
func Setup(plan Plan) (fds []int, err error) {
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			fds = nil
		}
	}()
	if err := routes(plan); err != nil {
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
	return fds, nil
}

// routes makes the addresses of plan this namespace's own.
func routes(plan Plan) error {
	l, err := openLink()
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer l.close()
	if err := l.up(); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	if err := l.address(Own); err != nil {
		return fmt.Errorf("address %s: %w", Own, err)
	}
	if err := l.local(Pool, unix.RT_TABLE_LOCAL); err != nil {
		return fmt.Errorf("route %s: %w", Pool, err)
	}
	for _, addr := range plan.Addresses {
		// A route and no address: an IPv6 address is of use only some time after it was given.
		if err := l.local(netip.PrefixFrom(addr, addr.BitLen()), unix.RT_TABLE_LOCAL); err != nil {
			return fmt.Errorf("address %s: %w", addr, err)
		}
	}
	// Where that cannot be had, nothing but sight is lost.
	_ = l.everything6()
	_ = l.everything4()
	return nil
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
		// IPv6 is not content with a route.
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

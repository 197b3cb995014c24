//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	add(map[string]func() *report{
		"net-host-loopback":  netHostLoopback,
		"net-host-loopback6": netHostLoopback6,
		"net-abstract":       netAbstract,
		"net-path-socket":    netPathSocket,
		"net-any-socket":     netAnySocket,
		"net-direct-ip":      netDirectIP,
		"net-ipv6":           netIPv6,
		"net-metadata":       netMetadata,
		"net-private":        netPrivate,
		"net-fake-range":     netFakeRange,
		"net-udp":            netUDP,
		"net-multicast":      netMulticast,
		"net-raw":            netRaw,
		"net-packet":         netPacket,
		"net-vsock":          netVsock,
		"net-alg":            netAlg,
		"net-families":       netFamilies,
		"net-protocols":      netProtocols,
		"net-netlink":        netNetlink,
		"net-diag":           netDiag,
		"net-config":         netConfig,
		"net-config-netlink": netConfigNetlink,
		"net-interfaces":     netInterfaces,
		"net-icmp":           netICMP,
		"net-name-denied":    netNameDenied,
		"net-name-tunnel":    netNameTunnel,
		"net-name-odd":       netNameOdd,
		"net-tun":            netTun,
		"net-options":        netOptions,
		"net-allowed":        netAllowed,
		"net-denied-port":    netDeniedPort,
	})
}

// dial connects within the time limit of a case, and returns the first data of the other end.
func dial(kind int, to netip.AddrPort) (string, error) {
	if to.Addr().Is6() {
		return talk(unix.AF_INET6, kind, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	}
	return talk(unix.AF_INET, kind, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
}

func talk(family, kind int, at unix.Sockaddr) (string, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return "", err
	}
	if kind == unix.SOCK_DGRAM {
		return "", nil
	}
	if err := ready(fd, unix.POLLOUT, time.Second); err != nil {
		return "", err
	}
	if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
		return "", errors.Join(err, unix.Errno(code))
	}
	if err := ready(fd, unix.POLLIN, time.Second); err != nil {
		return "", err
	}
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err == nil && n == 0 {
		err = errors.New("closed")
	}
	return string(buf[:max(n, 0)]), err
}

func ready(fd int, events int16, patience time.Duration) error {
	polled := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(polled, int(patience.Milliseconds()))
	if err == nil && n == 0 {
		err = unix.ETIMEDOUT
	}
	return err
}

func addr(ip string, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port))
}

func netHostLoopback() *report {
	r := attack()
	for _, ip := range []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "127.255.255.254"} {
		_, err := dial(unix.SOCK_STREAM, addr(ip, params.Port))
		r.try(ip, err)
	}
	return r
}

func netHostLoopback6() *report {
	r := attack()
	for _, ip := range []string{"::1", "::", "::ffff:127.0.0.1"} {
		port := params.Port6
		if strings.HasPrefix(ip, "::ffff") {
			port = params.Port
		}
		at := netip.MustParseAddr(ip)
		_, err := talk(unix.AF_INET6, unix.SOCK_STREAM, &unix.SockaddrInet6{Port: port, Addr: at.As16()})
		r.try(ip, err)
	}
	return r
}

func netAbstract() *report {
	r := attack()
	_, err := talk(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@" + params.Abstract})
	r.try("an abstract socket of the host", err)
	return r
}

func netPathSocket() *report {
	r := attack()
	_, err := talk(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: params.Socket})
	r.try("a socket of the host", err)
	return r
}

func netAnySocket() *report {
	r := attack()
	for _, dir := range []string{"/run", "/var", "/tmp", "/dev", "/home", params.Project} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeSocket != 0 {
				_, err := talk(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: path})
				r.try(path, err)
			}
			return nil
		})
	}
	r.saw("socket in sight", false)
	return r
}

// routed tries to reach addresses: first by a route look-up, which sends no packet, then by a connection.
func (r *report) routed(port int, ips ...string) {
	for _, ip := range ips {
		to := addr(ip, port)
		_, err := dial(unix.SOCK_DGRAM, to)
		r.try("a way to "+ip, err)
		if err == nil {
			continue
		}
		_, err = dial(unix.SOCK_STREAM, to)
		r.try("a connection to "+to.String(), err)
	}
}

func netDirectIP() *report {
	r := attack()
	r.routed(443, "1.1.1.1", "8.8.8.8", "140.82.121.4", "192.0.2.1", "203.0.113.7")
	return r
}

func netIPv6() *report {
	r := attack()
	r.routed(443, "2606:4700:4700::1111", "2001:db8::1", "fd00::1", "64:ff9b::808:808", "2002:808:808::1")
	return r
}

func netMetadata() *report {
	r := attack()
	r.routed(80, "169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254")
	return r
}

func netPrivate() *report {
	r := attack()
	r.routed(80, "10.0.0.1", "172.16.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1")
	return r
}

func netFakeRange() *report {
	r := attack()
	// The cage's address range for names holds only the allowed names.
	if params.Uncaged {
		r.try("left alone", unix.ENETUNREACH)
		return r
	}
	for _, ip := range []string{"198.18.0.1", "198.18.0.2", "198.18.255.254", "198.19.255.255"} {
		for _, port := range []int{22, 53, 80, 443, 8080} {
			_, err := dial(unix.SOCK_STREAM, addr(ip, port))
			r.try(fmt.Sprintf("%s:%d", ip, port), err)
		}
	}
	return r
}

func netUDP() *report {
	r := attack()
	for _, ip := range []string{"8.8.8.8", "1.1.1.1", "9.9.9.9", "192.0.2.53", "2001:4860:4860::8888", "::ffff:8.8.8.8"} {
		_, err := dial(unix.SOCK_DGRAM, addr(ip, 53))
		r.try("a way to "+ip, err)
	}
	return r
}

func netMulticast() *report {
	r := attack()
	for _, ip := range []string{"224.0.0.251", "239.255.255.250", "255.255.255.255", "10.255.255.255"} {
		_, err := dial(unix.SOCK_DGRAM, addr(ip, 1900))
		r.try("a way to "+ip, err)
	}
	return r
}

func (r *report) socket(name string, family, kind, protocol int) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	r.try(name, err)
	if err == nil {
		unix.Close(fd)
	}
}

func netRaw() *report {
	r := attack()
	r.socket("ICMP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	r.socket("TCP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
	r.socket("own headers", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	r.socket("ICMPv6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	return r
}

func netPacket() *report {
	r := attack()
	r.socket("raw", unix.AF_PACKET, unix.SOCK_RAW, 0)
	r.socket("cooked", unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	r.socket("old", unix.AF_INET, unix.SOCK_PACKET, 0)
	return r
}

func netVsock() *report {
	r := attack()
	// vsock ignores network namespaces: in a virtual machine it reaches the host.
	r.socket("stream", unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	r.socket("datagrams", unix.AF_VSOCK, unix.SOCK_DGRAM, 0)
	r.socket("packets", unix.AF_VSOCK, unix.SOCK_SEQPACKET, 0)
	return r
}

func netAlg() *report {
	r := attack()
	r.socket("the kernel's ciphers", unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
	return r
}

func netFamilies() *report {
	r := attack()
	for family := range 64 {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_VSOCK, unix.AF_ALG, unix.AF_PACKET:
			continue
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			r.socket(fmt.Sprintf("family %d, kind %d", family, kind), family, kind, 0)
		}
	}
	// The argument is an int, so its upper bits are ignored.
	r.try("a family with high bits", call(unix.SYS_SOCKET, uintptr(unix.AF_VSOCK|1<<32), unix.SOCK_STREAM, 0))
	r.try("a kind with high bits", call(unix.SYS_SOCKET, unix.AF_INET, uintptr(unix.SOCK_RAW|1<<32), unix.IPPROTO_TCP))
	r.try("a pair", call(unix.SYS_SOCKETPAIR, unix.AF_VSOCK, unix.SOCK_STREAM, 0, make([]byte, 8)))
	return r
}

func netProtocols() *report {
	r := attack()
	for name, protocol := range map[string]int{
		"SCTP": unix.IPPROTO_SCTP, "SMC": 256, "DCCP": unix.IPPROTO_DCCP, "UDP-Lite": unix.IPPROTO_UDPLITE, "L2TP": 115,
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
			r.socket(fmt.Sprintf("%s, kind %d", name, kind), unix.AF_INET, kind, protocol)
			r.socket(fmt.Sprintf("%s over IPv6, kind %d", name, kind), unix.AF_INET6, kind, protocol)
		}
	}
	return r
}

func netInterfaces() *report {
	r := attack()
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		r.try("/proc/net/dev", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); i > 1 {
			r.saw("interface "+name, name != "lo")
		}
	}
	return r
}

func netICMP() *report {
	r := attack()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}})
		unix.Close(fd)
	}
	r.try("an echo request", err)
	return r
}

func netTun() *report {
	r := attack()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	r.try("/dev/net/tun", err)
	if err == nil {
		unix.Close(fd)
	}
	return r
}

func netOptions() *report {
	r := attack()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	defer unix.Close(fd)
	r.try("SO_MARK", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1))
	r.try("SO_RCVBUFFORCE", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<24))
	r.try("IP_TRANSPARENT", unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1))
	r.try("TCP_REPAIR", unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, 1))
	return r
}

// allowed connects to the host that the policy allows and returns its answer.
func allowed() (string, error) {
	host, port, _ := strings.Cut(params.Allowed, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		return "", err
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		if _, address, err = resolve(labels(host), 1); err != nil {
			return "", err
		}
	}
	return dial(unix.SOCK_STREAM, netip.AddrPortFrom(address, uint16(number)))
}

func netAllowed() *report {
	r := control()
	said, err := allowed()
	if err == nil && said != params.Answer {
		err = fmt.Errorf("it says %q", said)
	}
	r.try(params.Allowed, err)
	return r
}

func netDeniedPort() *report {
	r := attack()
	host, _, _ := strings.Cut(params.Allowed, ":")
	address, err := netip.ParseAddr(host)
	if err != nil {
		if _, address, err = resolve(labels(host), 1); err != nil {
			r.try("the name", err)
			return r
		}
	}
	for _, port := range []int{params.Port, 1, 22, 53, 80, 443} {
		said, err := dial(unix.SOCK_STREAM, netip.AddrPortFrom(address, uint16(port)))
		if err == nil && port == 53 {
			err = errors.New("the resolver")
		}
		r.try(fmt.Sprint("port ", port, " ", said), err)
	}
	return r
}

//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

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

// dial connects, without waiting longer than a case may, and returns the first data of the other end.
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

// routed tries to reach addresses: first by looking for a route, which sends no packet, then by a connection.
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
	// The range that stands for names holds only the allowed ones.
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
	// It knows no network namespaces: in a virtual machine the host is at its other end.
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
	// The number is an int, so its upper bits do not count.
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

func netNetlink() *report {
	r := attack()
	for name, protocol := range map[string]int{
		"audit": unix.NETLINK_AUDIT, "uevent": unix.NETLINK_KOBJECT_UEVENT, "generic": unix.NETLINK_GENERIC, "netfilter": unix.NETLINK_NETFILTER, "connector": unix.NETLINK_CONNECTOR,
		"xfrm": unix.NETLINK_XFRM, "crypto": unix.NETLINK_CRYPTO, "selinux": unix.NETLINK_SELINUX, "iscsi": unix.NETLINK_ISCSI, "rdma": unix.NETLINK_RDMA,
	} {
		r.socket(name, unix.AF_NETLINK, unix.SOCK_RAW, protocol)
	}
	return r
}

func netDiag() *report {
	r := attack()
	r.socket("the sockets of others", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG)
	return r
}

func netConfig() *report {
	r := attack()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	defer unix.Close(fd)
	request := make([]byte, 40)
	copy(request, "lo")
	copy(request[16:], []byte{unix.AF_INET, 0, 0, 0, 10, 9, 8, 7})
	r.try("an address", call(unix.SYS_IOCTL, fd, unix.SIOCSIFADDR, request))
	binary.NativeEndian.PutUint16(request[16:], unix.IFF_UP|unix.IFF_PROMISC)
	r.try("listening to all", call(unix.SYS_IOCTL, fd, unix.SIOCSIFFLAGS, request))
	r.try("a route", call(unix.SYS_IOCTL, fd, unix.SIOCADDRT, make([]byte, 120)))
	r.try("a bridge", call(unix.SYS_IOCTL, fd, 0x89a0 /* SIOCBRADDBR */, "br-probe"))
	return r
}

// netlink sends one message to the kernel's router and returns its answer's error.
func netlink(kind, flags uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	head := unix.NlMsghdr{
		Len:   uint32(unix.SizeofNlMsghdr + len(body)),
		Type:  kind,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | flags,
		Seq:   1,
	}
	message := append(bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&head)), unix.SizeofNlMsghdr)), body...)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n >= 20 && binary.NativeEndian.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		if code := int32(binary.NativeEndian.Uint32(answer[16:])); code != 0 {
			return unix.Errno(-code)
		}
	}
	return nil
}

func netConfigNetlink() *report {
	r := attack()
	create := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	address := append([]byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0}, 8, 0, unix.IFA_LOCAL, 0, 10, 9, 8, 7)
	r.try("an address", netlink(unix.RTM_NEWADDR, create, address))
	route := append(
		[]byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0},
		8,
		0,
		unix.RTA_OIF,
		0,
		1,
		0,
		0,
		0,
	)
	r.try("a default route", netlink(unix.RTM_NEWROUTE, create, route))
	link := append(
		make([]byte, 16),
		16,
		0,
		18, /* IFLA_LINKINFO */
		0,
		10,
		0,
		1, /* IFLA_INFO_KIND */
		0,
		'd',
		'u',
		'm',
		'm',
		'y',
		0,
		0,
		0,
	)
	r.try("an interface", netlink(unix.RTM_NEWLINK, create, link))
	down := make([]byte, 16)
	binary.NativeEndian.PutUint32(down[4:], 1)
	binary.NativeEndian.PutUint32(down[12:], unix.IFF_PROMISC)
	binary.NativeEndian.PutUint32(down[8:], unix.IFF_PROMISC)
	r.try("listening to all", netlink(unix.RTM_NEWLINK, 0, down))
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

// resolve asks the cage's resolver, and returns the code of the answer and the first address in it.
func resolve(name []byte, kind uint16) (code int, address netip.Addr, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, address, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, address, err
	}
	query := append([]byte{0x4b, 0x47, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, name...)
	query = append(query, 0, byte(kind>>8), byte(kind), 0, 1)
	if _, err := unix.Write(fd, query); err != nil {
		return 0, address, err
	}
	if err := ready(fd, unix.POLLIN, time.Second); err != nil {
		return 0, address, err
	}
	answer := make([]byte, 1500)
	n, err := unix.Read(fd, answer)
	if err != nil {
		return 0, address, err
	}
	if n < 12 {
		return 0, address, errors.New("a short answer")
	}
	if binary.BigEndian.Uint16(answer[6:]) > 0 && n >= 4 {
		address, _ = netip.AddrFromSlice(answer[n-4 : n])
	}
	return int(answer[3] & 15), address, nil
}

// labels is a name as it is sent.
func labels(name string) (wire []byte) {
	for _, label := range strings.Split(name, ".") {
		wire = append(append(wire, byte(len(label))), label...)
	}
	return wire
}

func (r *report) named(what string, wire []byte, kind uint16) {
	code, address, err := resolve(wire, kind)
	if err == nil && !address.IsValid() {
		err = fmt.Errorf("code %d without an answer", code)
	}
	r.try(what, err)
}

func netNameDenied() *report {
	r := attack()
	for _, name := range []string{params.Denied, "localhost.localdomain", "metadata.google.internal", "host.docker.internal"} {
		r.named(name, labels(name), 1)
	}
	return r
}

func netNameTunnel() *report {
	r := attack()
	host, _, _ := strings.Cut(params.Allowed, ":")
	for _, name := range []string{"c2VjcmV0.tunnel." + params.Denied, "73656372.6574." + host, strings.Repeat("a", 60) + "." + params.Denied} {
		for _, kind := range []uint16{1, 5, 10, 15, 16, 28, 33, 255} { // A CNAME NULL MX TXT AAAA SRV ANY
			r.named(fmt.Sprintf("%s of kind %d", name, kind), labels(name), kind)
		}
	}
	return r
}

func netNameOdd() *report {
	r := attack()
	host, _, _ := strings.Cut(params.Allowed, ":")
	for what, wire := range map[string][]byte{
		"a NUL before the allowed name": labels(params.Denied + "\x00." + host), "a NUL after it": labels(host + "\x00." + params.Denied),
		"a name that only ends like it": labels("not" + host), "a loop": {0xc0, 12}, "a long label": append([]byte{64}, bytes.Repeat([]byte("a"), 64)...),
		"nothing": {}, "a dot in a label": append([]byte{byte(len(host) + 2)}, "x."+host...),
	} {
		r.named(what, wire, 1)
	}
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

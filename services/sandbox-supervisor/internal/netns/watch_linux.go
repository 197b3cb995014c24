package netns

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tables and priorities of rules. The kernel's own are at 0, which uses the local table, and at 32766 and 32767.
const (
	elsewhere = 100 // makes every address an address of this machine
	datagrams = 101 // replaces the local table for packets other than TCP

	beforeMain = 10
	afterAll   = 40000
)

// everything4 and everything6 make TCP connections to any address end here, at ports without a listener, so that the
// kernel's refusals can be seen. Without them, on a kernel without policy routing, connections have no route and are
// refused unseen. Other packets have no route in either case, and fail at once instead of being lost at a closed port.
// They are not seen, but counted (see Unrouted).

// everything6 is the simple case: TCP uses an additional table last.
func (l *link) everything6() error {
	if err := l.local(netip.PrefixFrom(netip.IPv6Unspecified(), 0), elsewhere); err != nil {
		return err
	}
	return l.rule(unix.AF_INET6, afterAll, elsewhere, unix.IPPROTO_TCP)
}

// everything4 puts every address into the local table, because IPv4 sends no refusal from an address outside of it, and
// uses another table for packets other than TCP. That table also lacks the addresses of names, so that a program that
// tries QUIC first fails at once and continues with TCP. It fails with EHOSTUNREACH, which the kernel does not count:
// some resolvers (c-ares, gRPC's) connect a UDP socket to each address only to find the best one, and that must not
// count as refused traffic.
func (l *link) everything4(addresses []netip.Addr) error {
	for _, prefix := range []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.PrefixFrom(Own, Own.BitLen())} {
		if err := l.local(prefix, datagrams); err != nil {
			return err
		}
	}
	if err := l.unreachable(Pool, datagrams); err != nil {
		return err
	}
	for _, addr := range addresses {
		if !addr.Is4() || addr == Own {
			continue
		}
		if err := l.unreachable(netip.PrefixFrom(addr, addr.BitLen()), datagrams); err != nil {
			return err
		}
	}
	if err := l.rule(unix.AF_INET, beforeMain, unix.RT_TABLE_LOCAL, unix.IPPROTO_TCP); err != nil {
		return err
	}
	if err := l.rule(unix.AF_INET, beforeMain+1, datagrams, 0); err != nil {
		return err
	}
	if err := l.noRule(unix.AF_INET, 0, unix.RT_TABLE_LOCAL); err != nil {
		return err
	}
	return l.local(netip.PrefixFrom(netip.IPv4Unspecified(), 0), unix.RT_TABLE_LOCAL)
}

// watch returns a socket that receives the first packet of each attempted connection to an address outside 127.0.0.0/8
// and ::1: its IP header and the first bytes after it.
func watch() (int, error) {
	// Protocol 0 receives no packet, so that none arrives before the filter is set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	filter := opening()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1)
	}
	if err == nil {
		const all = unix.ETH_P_ALL
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: loopback})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// opening is the filter for incoming packets with SYN and without ACK, so that each is seen once.
func opening() []unix.SockFilter {
	const (
		adProtocol = 0xfffff000     // SKF_AD_OFF + SKF_AD_PROTOCOL
		adPkttype  = 0xfffff000 + 4 // SKF_AD_OFF + SKF_AD_PKTTYPE
		kept       = 128            // bytes kept of a packet
		outgoing   = unix.PACKET_OUTGOING
		load1      = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		load2      = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		load4      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		load1x     = unix.BPF_LD | unix.BPF_B | unix.BPF_IND
		jeq        = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		jset       = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		and        = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		header     = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH
		ret        = unix.BPF_RET | unix.BPF_K
		syn, flags = 0x02, 0x12 // SYN; SYN and ACK
	)
	op := func(code uint16, k uint32, jt, jf uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf}
	}
	return []unix.SockFilter{
		0:  op(load2, adPkttype, 0, 0), // SKF_AD_PKTTYPE
		1:  op(jeq, outgoing, 22, 0),
		2:  op(load2, adProtocol, 0, 0),
		3:  op(jeq, unix.ETH_P_IPV6, 11, 0),
		4:  op(jeq, unix.ETH_P_IP, 0, 19),
		5:  op(load1, 9, 0, 0), // protocol
		6:  op(jeq, unix.IPPROTO_TCP, 0, 17),
		7:  op(load2, 6, 0, 0), // only the first fragment has a TCP header
		8:  op(jset, 0x1fff, 15, 0),
		9:  op(load1, 16, 0, 0), // destination
		10: op(jeq, 127, 13, 0),
		11: op(header, 0, 0, 0),
		12: op(load1x, 13, 0, 0), // flags
		13: op(and, flags, 0, 0),
		14: op(jeq, syn, 8, 9),
		15: op(load1, 6, 0, 0), // next header
		16: op(jeq, unix.IPPROTO_TCP, 0, 7),
		17: op(load4, 24, 0, 0), // destination except ::/32, which contains ::1
		18: op(jeq, 0, 0, 1),
		19: op(ret, 0, 0, 0),
		20: op(load1, 40+13, 0, 0), // flags
		21: op(and, flags, 0, 0),
		22: op(jeq, syn, 0, 1),
		23: op(ret, kept, 0, 0),
		24: op(ret, 0, 0, 0),
	}
}

// Destination parses the destination of a packet from a watching socket.
func Destination(packet []byte) (netip.AddrPort, bool) {
	if len(packet) < 1 {
		return netip.AddrPort{}, false
	}
	var addr netip.Addr
	header := 40
	switch {
	case packet[0]>>4 == 4 && len(packet) >= 20:
		addr = netip.AddrFrom4([4]byte(packet[16:20]))
		header = int(packet[0]&15) * 4
	case packet[0]>>4 == 6 && len(packet) >= header:
		addr = netip.AddrFrom16([16]byte(packet[24:40]))
	default:
		return netip.AddrPort{}, false
	}
	if len(packet) < header+4 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(packet[header+2:])), true
}

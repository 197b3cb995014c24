package netns

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// loopback is the index of the loopback interface, the first of every namespace.
const loopback = 1

// Constants of <linux/fib_rules.h> that golang.org/x/sys/unix does not have.
const (
	fraPriority   = 6
	fraTable      = 15
	fraIPProto    = 22
	actionToTable = 1
)

// link is a routing socket to the kernel.
type link struct {
	fd  int
	seq uint32
}

func openLink() (*link, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	return &link{fd: fd}, nil
}

func (l *link) close() { unix.Close(l.fd) }

// message is the fixed part of a request and its attributes.
type message []byte

// with adds an attribute.
func (m message) with(kind uint16, value []byte) message {
	m = binary.NativeEndian.AppendUint16(m, uint16(unix.SizeofRtAttr+len(value)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = append(m, value...)
	for len(m)%unix.RTA_ALIGNTO != 0 {
		m = append(m, 0)
	}
	return m
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// family returns the address family of addr.
func family(addr netip.Addr) byte {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// create asks the kernel to create an object, and accepts an existing one.
func (l *link) create(kind uint16, body message) error {
	err := l.request(kind, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// request sends a request and waits for its answer.
func (l *link) request(kind, flags uint16, body message) error {
	l.seq++
	out := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	out = binary.NativeEndian.AppendUint32(out, l.seq)
	out = binary.NativeEndian.AppendUint32(out, 0)
	out = append(out, body...)
	if err := unix.Sendto(l.fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	in := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(l.fd, in, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		const code = unix.SizeofNlMsghdr
		if n < code+4 || binary.NativeEndian.Uint16(in[4:]) != unix.NLMSG_ERROR ||
			binary.NativeEndian.Uint32(in[8:]) != l.seq {
			continue
		}
		if errno := -int32(binary.NativeEndian.Uint32(in[code:])); errno != 0 {
			return unix.Errno(errno)
		}
		return nil
	}
}

// errUsed refuses a namespace in use, because a change might cut off a whole machine.
var errUsed = errors.New("the network namespace is not a new one")

// up enables the loopback interface, which is disabled in a new namespace.
func (l *link) up() error {
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	inet, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(inet)
	if err := unix.IoctlIfreq(inet, unix.SIOCGIFFLAGS, ifreq); err != nil {
		return err
	}
	if ifreq.Uint16()&unix.IFF_UP != 0 {
		return errUsed
	}
	body := message{unix.AF_UNSPEC, 0, 0, 0}
	for _, n := range []uint32{loopback, unix.IFF_UP, unix.IFF_UP} { // index, flags, mask of changed flags
		body = binary.NativeEndian.AppendUint32(body, n)
	}
	return l.request(unix.RTM_NEWLINK, 0, body)
}

// address adds an address to the loopback interface.
func (l *link) address(addr netip.Addr) error {
	body := message{family(addr), byte(addr.BitLen()), unix.IFA_F_NODAD, unix.RT_SCOPE_HOST}
	body = append(body, number(loopback)...)
	return l.create(unix.RTM_NEWADDR, body.with(unix.IFA_LOCAL, addr.AsSlice()).with(unix.IFA_ADDRESS, addr.AsSlice()))
}

// local makes every address in prefix an address of this machine, in table.
func (l *link) local(prefix netip.Prefix, table byte) error {
	return l.create(unix.RTM_NEWROUTE, route(prefix, table, unix.RTN_LOCAL).with(unix.RTA_OIF, number(loopback)))
}

// unreachable makes every address in prefix unreachable, in table.
func (l *link) unreachable(prefix netip.Prefix, table byte) error {
	return l.create(unix.RTM_NEWROUTE, route(prefix, table, unix.RTN_UNREACHABLE))
}

func route(prefix netip.Prefix, table, kind byte) message {
	body := message{
		family(prefix.Addr()), byte(prefix.Bits()), 0, 0,
		table, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, kind, 0, 0, 0, 0,
	}
	if prefix.Bits() > 0 {
		body = body.with(unix.RTA_DST, prefix.Addr().AsSlice())
	}
	return body
}

// rule makes packets of a protocol, 0 for all, use table, with the given priority.
func (l *link) rule(family byte, priority uint32, table, protocol byte) error {
	return l.create(unix.RTM_NEWRULE, ruleBody(family, priority, table, protocol))
}

// noRule removes a rule.
func (l *link) noRule(family byte, priority uint32, table byte) error {
	return l.request(unix.RTM_DELRULE, 0, ruleBody(family, priority, table, 0))
}

func ruleBody(family byte, priority uint32, table, protocol byte) message {
	body := message{family, 0, 0, 0, table, 0, 0, actionToTable, 0, 0, 0, 0}
	body = body.with(fraPriority, number(priority)).with(fraTable, number(uint32(table)))
	if protocol != 0 {
		body = body.with(fraIPProto, []byte{protocol})
	}
	return body
}

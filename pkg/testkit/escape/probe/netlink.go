//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

func netNetlink() *report {
	r := attack()
	for name, protocol := range map[string]int{
		"audit": unix.NETLINK_AUDIT, "uevent": unix.NETLINK_KOBJECT_UEVENT, "generic": unix.NETLINK_GENERIC,
		"netfilter": unix.NETLINK_NETFILTER, "connector": unix.NETLINK_CONNECTOR,
		"xfrm": unix.NETLINK_XFRM, "crypto": unix.NETLINK_CRYPTO, "selinux": unix.NETLINK_SELINUX,
		"iscsi": unix.NETLINK_ISCSI, "rdma": unix.NETLINK_RDMA,
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

// netlink sends one routing message to the kernel and returns the error of its answer.
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

//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// resolve queries the cage's resolver, and returns the code of the answer and its first address.
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

// labels encodes a name for a query.
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
	for _, name := range []string{
		params.Denied, "localhost.localdomain", "metadata.google.internal", "host.docker.internal",
	} {
		r.named(name, labels(name), 1)
	}
	return r
}

func netNameTunnel() *report {
	r := attack()
	host, _, _ := strings.Cut(params.Allowed, ":")
	for _, name := range []string{
		"c2VjcmV0.tunnel." + params.Denied, "73656372.6574." + host, strings.Repeat("a", 60) + "." + params.Denied,
	} {
		for _, kind := range []uint16{1, 5, 10, 15, 16, 28, 33, 255} { // the types A CNAME NULL MX TXT AAAA SRV ANY
			r.named(fmt.Sprintf("%s of kind %d", name, kind), labels(name), kind)
		}
	}
	return r
}

func netNameOdd() *report {
	r := attack()
	host, _, _ := strings.Cut(params.Allowed, ":")
	for what, wire := range map[string][]byte{
		"a NUL before the allowed name": labels(params.Denied + "\x00." + host),
		"a NUL after it":                labels(host + "\x00." + params.Denied),
		"a name that only ends like it": labels("not" + host), "a loop": {0xc0, 12},
		"a long label": append([]byte{64}, bytes.Repeat([]byte("a"), 64)...),
		"nothing":      {}, "a dot in a label": append([]byte{byte(len(host) + 2)}, "x."+host...),
	} {
		r.named(what, wire, 1)
	}
	return r
}

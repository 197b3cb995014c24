package netns

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// The files with the counters of a namespace; they hold, for each family, the number of packets without a route.
const (
	counters4 = "/proc/self/net/snmp"
	counters6 = "/proc/self/net/snmp6"
)

// openCounters opens one of them. It shows this process's namespace, and keeps that, until it is closed.
func openCounters(name string) (int, error) {
	return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// CountersSize is how much of the beginning of the counters Unrouted needs, at most.
const CountersSize = 1024

// Unrouted reads the number of packets that the kernel refused for lack of a route, and whether they were IPv6, from
// the beginning of one of the counter files that Setup returned. In a cage these are UDP: datagrams to be sent, or
// sockets to be connected. It does not allocate.
func Unrouted(text []byte) (n uint64, ipv6, ok bool) {
	if names, rest, _ := bytes.Cut(text, []byte("\n")); bytes.HasPrefix(names, []byte("Ip: ")) {
		// A line of names and one of as many values.
		values, _, whole := bytes.Cut(rest, []byte("\n"))
		at := place(names, "OutNoRoutes")
		if !whole || at < 0 {
			return 0, false, false
		}
		for value := range bytes.FieldsSeq(values) {
			if at == 0 {
				n, err := strconv.ParseUint(string(value), 10, 64)
				return n, false, err == nil
			}
			at--
		}
		return 0, false, false
	}
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if value, found := bytes.CutPrefix(line, []byte("Ip6OutNoRoutes")); found && whole {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return n, true, err == nil
		}
		text = rest
	}
	return 0, false, false
}

// place returns the index of the field called name in line, -1 without one.
func place(line []byte, name string) int {
	at := 0
	for field := range bytes.FieldsSeq(line) {
		if string(field) == name {
			return at
		}
		at++
	}
	return -1
}

package netns

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// The files with the counters of a namespace: for each family, the number of packets without a route.
const (
	counters4 = "/proc/self/net/snmp"
	counters6 = "/proc/self/net/snmp6"
)

// openCounters opens one of them. The open file stays bound to this process's namespace until it is closed.
func openCounters(name string) (int, error) {
	return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// CountersSize is the maximum number of bytes that Unrouted needs from the beginning of the counters.
const CountersSize = 1024

// Unrouted parses the number of packets that the kernel refused for lack of a route, and whether they were IPv6, from
// the beginning of one of the counter files of Setup. In a cage these are UDP: datagrams to send, or sockets to
// connect. It does not allocate.
func Unrouted(text []byte) (n uint64, ipv6, ok bool) {
	if names, rest, _ := bytes.Cut(text, []byte("\n")); bytes.HasPrefix(names, []byte("Ip: ")) {
		// One line has the names, and the next the values.
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

// place returns the index of a named field in line, or -1.
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

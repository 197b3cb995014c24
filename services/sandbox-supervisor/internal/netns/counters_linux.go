package netns

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// The files that show what a namespace counts: also, for each family, how often something had no route.
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

// Unrouted reads in the beginning of the counters, as one of the files that Setup returned shows them, how often the kernel has
// refused something because it had no route, and whether it was IPv6. In a cage that is UDP: a datagram that was to be sent, or a
// socket that was to be connected. It does not allocate.
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

// place returns which field of line is name, -1 for none.
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

package egress

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
)

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// scope is the set of names that may resolve to an address.
type scope int

const (
	// public addresses are allowed for every name.
	public scope = iota
	// private addresses, of local networks, are allowed for names in Options.PrivateHosts.
	private
	// never addresses are refused: link-local ones, with their metadata services, and those of no host.
	never
)

// kinds lists the ranges of addresses, with a description of the non-public ones. The first match decides.
var kinds = []struct {
	prefix netip.Prefix
	scope  scope
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), never, "no host's"},
	{netip.MustParsePrefix("10.0.0.0/8"), private, "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), private, "a carrier's (CGNAT)"},
	{netip.MustParsePrefix("127.0.0.0/8"), private, "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), never, "link-local, where metadata services are"},
	{netip.MustParsePrefix("172.16.0.0/12"), private, "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), never, "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), never, "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), never, "a 6to4 relay's"},
	{netip.MustParsePrefix("192.168.0.0/16"), private, "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), never, "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), never, "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), never, "for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), never, "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), never, "reserved"},
	{netip.MustParsePrefix("::1/128"), private, "loopback"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), never, "a translator's of unknown meaning"},
	{netip.MustParsePrefix("fc00::/7"), private, "private (ULA)"},
	// AWS has a metadata address in the ULA range.
	{netip.MustParsePrefix("2001:db8::/32"), never, "for documentation"},
	{netip.MustParsePrefix("2001::/23"), never, "for protocols (Teredo and others)"},
	{netip.MustParsePrefix("2002::/16"), never, "6to4, which hides another address"},
	{netip.MustParsePrefix("3fff::/20"), never, "for documentation"},
	{netip.MustParsePrefix("2000::/3"), public, ""},
	{netip.MustParsePrefix("::/0"), never, "not of the public network"},
}

// metadata are metadata services of clouds inside private ranges.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("168.63.129.16"),
}

// nat64 is the prefix of IPv6 addresses that a NAT64 gateway translates to the IPv4 address in their last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// classify returns the scope of addr, and its description unless it is public.
func classify(addr netip.Addr) (scope, string) {
	if addr.Is4In6() {
		return never, "an IPv4 address in disguise"
	}
	addr = addr.WithZone("")
	if nat64.Contains(addr) {
		bytes := addr.As16()
		return classify(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	for _, m := range metadata {
		if addr == m {
			return never, "a cloud's metadata service"
		}
	}
	for _, kind := range kinds {
		if kind.prefix.Contains(addr) {
			return kind.scope, kind.what
		}
	}
	return public, ""
}

// hostPort joins a name and a port.
func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// swap reads a big-endian number of two bytes.
func swap(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

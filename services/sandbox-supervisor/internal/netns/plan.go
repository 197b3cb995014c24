package netns

import "net/netip"

// Pool is the range of the synthetic addresses for names: the range for benchmarks, which no network routes.
var Pool = netip.MustParsePrefix("198.18.0.0/15")

// Own is the cage's own address in Pool, besides loopback. Resolvers ask for IPv4 addresses only if the machine has a
// non-loopback one (AI_ADDRCONFIG).
var Own = netip.MustParseAddr("198.18.0.1")

// Resolver is the address of the cage's resolver.
var Resolver = netip.MustParseAddrPort("127.0.0.1:53")

// Plan configures a network namespace. It is sent to the cage's init as JSON.
type Plan struct {
	// Addresses are the addresses named in the policy, delivered to the cage besides those of Pool and of loopback.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Datagrams and Streams are the addresses of the UDP sockets and of the TCP listeners.
	Datagrams []netip.AddrPort `json:"datagrams,omitempty"`
	Streams   []netip.AddrPort `json:"streams,omitempty"`
}

// The files that make programs ask only Resolver. A refused query fails at once: there is no search list and no retry.
const (
	ResolvConf = "nameserver 127.0.0.1\noptions timeout:2 attempts:1 no-aaaa\n"
	Nsswitch   = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: " +
		"files\nservices: files\nethers: files\nrpc: files\n"
)

// Hosts is the text of /etc/hosts in a cage with the given host name.
func Hosts(hostname string) string {
	return "127.0.0.1 localhost " + hostname + "\n::1 localhost ip6-localhost ip6-loopback\n"
}

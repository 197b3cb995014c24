package egress

import (
	"net/netip"
	"slices"

	"kaged.dev/pkg/cage"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// route is what is behind an address of the cage's.
type route struct {
	// rule is the rule as written.
	rule string
	// host is the name to resolve; empty where addrs are it.
	host string
	// addrs are the addresses of a rule that names one.
	addrs []netip.Addr
	port  uint16
	// credential is sent with each request; nil for a route that only passes bytes.
	credential *Credential
}

// target returns what the route leads to, as attempts show it.
func (r *route) target() string {
	if r.host == "" {
		return netip.AddrPortFrom(r.addrs[0], r.port).String()
	}
	return hostPort(r.host, r.port)
}

// table says what each address in the cage means.
type table struct {
	names  map[string]netip.Addr // by name in lower case
	hosts  map[netip.Addr]string // the way back
	routes map[netip.AddrPort]*route
	plan   netns.Plan
}

// localhost is the name whose address no resolver is asked for.
const localhost = "localhost"

// plainPort is where programs in the cage reach a host that the gate has a credential for.
const plainPort = 80

// Plan returns what Setup is to set up in the cage for rules. It is the same each time. Gate.Plan besides has a listener for
// each credential.
func Plan(rules []cage.Rule) netns.Plan { return newTable(rules, nil).plan }

func newTable(rules []cage.Rule, credentials []Credential) *table {
	t := &table{
		names: map[string]netip.Addr{}, hosts: map[netip.Addr]string{}, routes: map[netip.AddrPort]*route{},
		plan: netns.Plan{Datagrams: []netip.AddrPort{netns.Resolver}},
	}
	for _, rule := range rules {
		if rule.Addr.IsValid() {
			t.literal(rule.Text, rule.Addr.Unmap(), rule.Port)
		}
	}
	next := netns.Own
	for _, rule := range rules {
		switch {
		case rule.Addr.IsValid() || rule.Host == "" || rule.Port == 0:
			continue
		case rule.Host == localhost:
			t.loopback(rule)
			continue
		case !t.names[rule.Host].IsValid():
			for next = next.Next(); slices.Contains(t.plan.Addresses, next); next = next.Next() {
			}
			t.names[rule.Host], t.hosts[next] = next, rule.Host
		}
		t.listen(netip.AddrPortFrom(t.names[rule.Host], rule.Port), &route{rule: rule.Text, host: rule.Host, port: rule.Port})
	}
	for _, credential := range credentials {
		addr := t.names[credential.Host]
		if allowed := t.routes[netip.AddrPortFrom(addr, credential.Port)]; addr.IsValid() && allowed != nil {
			with := *allowed
			with.credential = &credential
			t.listen(netip.AddrPortFrom(addr, plainPort), &with)
		}
	}
	// Answers are short enough for UDP. A rule for the address itself goes before asking by TCP.
	if t.routes[netns.Resolver] == nil {
		t.plan.Streams = append(t.plan.Streams, netns.Resolver)
	}
	return t
}

// literal is a rule that names an address: inside it is what it is outside.
func (t *table) literal(rule string, addr netip.Addr, port uint16) {
	if addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != "" || addr == broadcast || port == 0 {
		return // no host has it, and a listener would be there for more than one
	}
	if !addr.IsLoopback() && !slices.Contains(t.plan.Addresses, addr) {
		t.plan.Addresses = append(t.plan.Addresses, addr)
	}
	t.listen(netip.AddrPortFrom(addr, port), &route{rule: rule, addrs: []netip.Addr{addr}, port: port})
}

// loopback is a rule for localhost, which every program knows the address of: inside it is the host's.
func (t *table) loopback(rule cage.Rule) {
	addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	t.listen(netip.AddrPortFrom(addrs[0], rule.Port), &route{rule: rule.Text, host: "", addrs: addrs, port: rule.Port})
}

// listen adds a route; a credential's goes before a rule's, and the first of two rules before the second.
func (t *table) listen(at netip.AddrPort, r *route) {
	old := t.routes[at]
	if old == nil {
		t.plan.Streams = append(t.plan.Streams, at)
	}
	if old == nil || r.credential != nil {
		t.routes[at] = r
	}
}

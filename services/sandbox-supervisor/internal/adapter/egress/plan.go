package egress

import (
	"net/netip"
	"slices"

	"kaged.dev/pkg/cage"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// route is the target of an address and port in the cage.
type route struct {
	// rule is the rule's text.
	rule string
	// host is the name to resolve, empty for a rule by address.
	host string
	// addrs are the addresses of a rule by address.
	addrs []netip.Addr
	port  uint16
	// credential is added to each request; nil for a plain relay.
	credential *Credential
}

// target returns the route's target as reported in attempts.
func (r *route) target() string {
	if r.host == "" {
		return netip.AddrPortFrom(r.addrs[0], r.port).String()
	}
	return hostPort(r.host, r.port)
}

// table maps the addresses in a cage to routes.
type table struct {
	names  map[string]netip.Addr // by name in lower case
	hosts  map[netip.Addr]string // the inverse of names
	routes map[netip.AddrPort]*route
	plan   netns.Plan
}

// localhost is resolved by most programs themselves, without the resolver.
const localhost = "localhost"

// plainPort is the port in the cage for plain HTTP to a host with a credential.
const plainPort = 80

// Plan returns the addresses and listeners of rules; the result is constant. Gate.Plan adds a listener per credential.
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
	// A rule for the resolver's own address has precedence over DNS by TCP, which short answers do not need.
	if t.routes[netns.Resolver] == nil {
		t.plan.Streams = append(t.plan.Streams, netns.Resolver)
	}
	return t
}

// literal adds a rule by address, which has the same address inside and outside.
func (t *table) literal(rule string, addr netip.Addr, port uint16) {
	if addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != "" || addr == broadcast || port == 0 {
		return // not the address of one host
	}
	if !addr.IsLoopback() && !slices.Contains(t.plan.Addresses, addr) {
		t.plan.Addresses = append(t.plan.Addresses, addr)
	}
	t.listen(netip.AddrPortFrom(addr, port), &route{rule: rule, addrs: []netip.Addr{addr}, port: port})
}

// loopback adds a rule for localhost: its loopback address inside leads to the host's.
func (t *table) loopback(rule cage.Rule) {
	addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	t.listen(netip.AddrPortFrom(addrs[0], rule.Port), &route{rule: rule.Text, host: "", addrs: addrs, port: rule.Port})
}

// listen adds a route. A credential's route replaces a rule's; of two rules the first wins.
func (t *table) listen(at netip.AddrPort, r *route) {
	old := t.routes[at]
	if old == nil {
		t.plan.Streams = append(t.plan.Streams, at)
	}
	if old == nil || r.credential != nil {
		t.routes[at] = r
	}
}

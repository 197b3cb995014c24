package egress

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"kaged.dev/pkg/contract"
)

// Options are what gates have in common, and Attempt and Busy, which are a cage's own.
type Options struct {
	Limits
	// Outside is the network that the gate connects to.
	Outside Outside
	// PrivateHosts are names that may resolve to addresses of private networks and of loopback: "name", or "*.name" for
	// every name below.
	PrivateHosts []string
	// Credentials are sent to their hosts by the gate where a cage's policy allows the host.
	Credentials []Credential
	// Attempt is told what is tried, one call at a time; it must not block. What is the same is told at once and then, as long
	// as it goes on, once a second.
	Attempt func(contract.Attempt)
	// Busy says whether a command runs in the cage; nil for never.
	Busy func() bool
	// Background runs what takes its time and nobody is to wait for, in a goroutine; nil for at once.
	Background func(func())
	Log        *slog.Logger
}

// busy returns whether a command runs.
func (o *Options) busy() bool { return o.Busy != nil && o.Busy() }

// later runs f later.
func (o *Options) later(f func()) {
	if o.Background == nil {
		f()
		return
	}
	o.Background(f)
}

// Limits bound what a cage can make a gate do.
type Limits struct {
	// Connections is how many a cage may have at once.
	Connections int
	// ResolveTimeout is how long looking up a name may take, ConnectTimeout connecting to it, with all its addresses and, for a
	// credential, TLS.
	ResolveTimeout, ConnectTimeout time.Duration
	// HelloTimeout is how long a client may take from its first byte until it has said whom it calls.
	HelloTimeout time.Duration
	// IdleTimeout is how long nothing may move on a connection.
	IdleTimeout time.Duration
	// BodyBytes is the largest body of a request that gets a credential.
	BodyBytes int64
}

// Outside is how a gate reaches the network. Its functions are called by many at once.
type Outside struct {
	// Lookup returns the addresses of a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address.
	Dial func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error)
	// Roots are who may vouch for a server that gets a credential; nil for the system's.
	Roots *x509.CertPool
}

// System returns this machine's network. It remembers the addresses of up to names names for remember; lookups that failed it
// does not remember.
func System(names int, remember time.Duration) Outside {
	return Outside{
		Lookup: remembering(func(ctx context.Context, host string) ([]netip.Addr, error) {
			if strings.Contains(host, ".") {
				host += "." // this machine's search list is for names of one word
			}
			addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			for i, addr := range addrs {
				addrs[i] = addr.Unmap() // package net has IPv4 addresses in either form
			}
			return addrs, err
		}, names, remember),
		Dial: func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", to.String())
			if err != nil {
				return nil, err
			}
			return conn.(*net.TCPConn), nil
		},
	}
}

// remembering puts a cache before a lookup.
func remembering(lookup func(context.Context, string) ([]netip.Addr, error), names int, remember time.Duration) func(context.Context, string) ([]netip.Addr, error) {
	type answer struct {
		addrs []netip.Addr
		until time.Time
	}
	known, err := lru.New[string, answer](max(names, 1))
	if err != nil {
		panic(err) // a size below one
	}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		if found, ok := known.Get(host); ok && time.Now().Before(found.until) {
			return found.addrs, nil
		}
		addrs, err := lookup(ctx, host)
		if err == nil {
			known.Add(host, answer{addrs, time.Now().Add(remember)})
		}
		return addrs, err
	}
}

// mayBePrivate returns whether host is one of PrivateHosts.
func (o *Options) mayBePrivate(host string) bool {
	for _, h := range o.PrivateHosts {
		if below, any := strings.CutPrefix(h, "*"); h == host || any && strings.HasSuffix(host, below) {
			return true
		}
	}
	return false
}

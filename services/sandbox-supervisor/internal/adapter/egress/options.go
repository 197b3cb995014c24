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

// Options configures a gate. Attempt and Busy are per cage, the others are shared.
type Options struct {
	Limits
	// Outside is the network that gates connect to.
	Outside Outside
	// PrivateHosts are names that may resolve to private and loopback addresses: "name", or "*.name" for all names
	// below.
	PrivateHosts []string
	// Credentials are added to requests, if the cage's policy allows their host.
	Credentials []Credential
	// Attempt receives the attempts, one call at a time; it must not block. The first of a kind is reported at once,
	// repeated ones once a second.
	Attempt func(contract.Attempt)
	// Busy reports whether a command runs in the cage; nil means never.
	Busy func() bool
	// Background runs a slow function in a goroutine of the caller's; nil runs it synchronously.
	Background func(func())
	Log        *slog.Logger
}

// busy reports whether a command runs in the cage.
func (o *Options) busy() bool { return o.Busy != nil && o.Busy() }

// later runs f by Background.
func (o *Options) later(f func()) {
	if o.Background == nil {
		f()
		return
	}
	o.Background(f)
}

// Limits are the resource limits of a cage in its gate.
type Limits struct {
	// Connections limits the open connections of a cage.
	Connections int
	// ResolveTimeout limits a name lookup. ConnectTimeout limits connecting to all addresses of a name, and the TLS
	// handshake of a credential's connection.
	ResolveTimeout, ConnectTimeout time.Duration
	// HelloTimeout limits the time from a client's first byte to its server name.
	HelloTimeout time.Duration
	// IdleTimeout closes a connection without traffic.
	IdleTimeout time.Duration
	// BodyBytes limits the body of a request with a credential.
	BodyBytes int64
}

// Outside is the network outside the cages. Its functions are safe for concurrent use.
type Outside struct {
	// Lookup returns the addresses of a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address.
	Dial func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error)
	// Roots verify servers with a credential; nil for the system's.
	Roots *x509.CertPool
}

// System returns this machine's network. It caches the addresses of up to the given number of names for the duration
// remember; failed lookups are not cached.
func System(names int, remember time.Duration) Outside {
	return Outside{
		Lookup: remembering(func(ctx context.Context, host string) ([]netip.Addr, error) {
			if strings.Contains(host, ".") {
				host += "." // the machine's search list applies to single-word names only
			}
			addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			for i, addr := range addrs {
				addrs[i] = addr.Unmap() // package net returns IPv4 addresses in either form
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

// remembering adds a cache to a lookup.
func remembering(
	lookup func(context.Context, string) ([]netip.Addr, error), names int, remember time.Duration,
) func(context.Context, string) ([]netip.Addr, error) {
	type answer struct {
		addrs []netip.Addr
		until time.Time
	}
	known, err := lru.New[string, answer](max(names, 1))
	if err != nil {
		panic(err) // only a size below one fails
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

// mayBePrivate reports whether host is in PrivateHosts.
func (o *Options) mayBePrivate(host string) bool {
	for _, h := range o.PrivateHosts {
		if below, any := strings.CutPrefix(h, "*"); h == host || any && strings.HasSuffix(host, below) {
			return true
		}
	}
	return false
}

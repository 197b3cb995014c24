package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

const (
	// maxAddrs is the maximum number of a name's addresses that are tried.
	maxAddrs = 8
	// patience is the head start of one address over the next.
	patience = 300 * time.Millisecond
)

// dial connects to the target of a route. The name is resolved and checked once; the connection goes to a checked
// address and never to the name. Its errors are sentences for the attempts' reader.
func (g *Gate) dial(ctx context.Context, r *route) (*net.TCPConn, error) {
	addrs := r.addrs
	if r.host != "" {
		var err error
		if addrs, err = g.resolve(ctx, r.host); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.ConnectTimeout)
	defer cancel()
	conn, err := g.race(ctx, addrs, r.port)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %s", r.target(), reason(err))
	}
	return conn, nil
}

// reason returns the text of an error without the called function.
func reason(err error) string {
	var system *os.SyscallError
	if errors.As(err, &system) {
		return system.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer"
	}
	return err.Error()
}

// resolve returns the allowed addresses of a name, IPv4 first.
func (g *Gate) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.ResolveTimeout)
	defer cancel()
	found, err := g.opts.Outside.Lookup(ctx, host)
	if err != nil {
		var dns *net.DNSError
		if errors.As(err, &dns) {
			return nil, fmt.Errorf("%s cannot be resolved: %s", host, dns.Err)
		}
		return nil, fmt.Errorf("%s cannot be resolved: %s", host, reason(err))
	}
	var four, six []netip.Addr
	refused := "no address"
	for _, addr := range found {
		is, what := classify(addr)
		if is == never || is == private && !g.opts.mayBePrivate(host) {
			refused = fmt.Sprintf("%s, which is %s", addr, what)
			if is == private {
				refused += "; an operator may allow it by private_hosts in [services.sandbox-supervisor]"
			}
			continue
		}
		if addr.Is4() {
			four = append(four, addr)
		} else {
			six = append(six, addr)
		}
	}
	allowed := append(four, six...)
	if len(allowed) == 0 {
		return nil, fmt.Errorf("%s resolves to %s", host, refused)
	}
	return allowed[:min(len(allowed), maxAddrs)], nil
}

// race connects to addrs in parallel, each with a head start over the next, and returns the first connection.
func (g *Gate) race(ctx context.Context, addrs []netip.Addr, port uint16) (*net.TCPConn, error) {
	if len(addrs) == 1 {
		return g.opts.Outside.Dial(ctx, netip.AddrPortFrom(addrs[0], port))
	}
	type result struct {
		conn *net.TCPConn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result)
	running := 0
	// All other dials are awaited, so that none of their connections leaks; cancel makes them return soon.
	defer func() {
		cancel()
		for ; running > 0; running-- {
			if late := <-results; late.conn != nil {
				late.conn.Close()
			}
		}
	}()
	var first error
	turn := time.NewTimer(0)
	defer turn.Stop()
	for next := 0; next < len(addrs) || running > 0; {
		select {
		case <-turn.C:
			if next == len(addrs) {
				continue
			}
			to := netip.AddrPortFrom(addrs[next], port)
			next++
			running++
			go func() {
				conn, err := g.opts.Outside.Dial(ctx, to)
				results <- result{conn, err}
			}()
			turn.Reset(patience)
		case r := <-results:
			running--
			if r.err == nil {
				return r.conn, nil
			}
			if first == nil {
				first = r.err
			}
			turn.Reset(0)
		}
	}
	return nil, first
}

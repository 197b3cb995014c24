package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

// Programs that know nothing of the gate reach the hosts of the policy by name; all other attempts fail at once and are
// reported.
func TestTheNetworkByName(t *testing.T) {
	t.Parallel()
	for _, way := range netnstest.Ways() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.at("api.example.com", "93.184.216.34:8080", web(t, "hello").Listener.Addr())
			w.at("", "10.1.2.3:80", web(t, "by address").Listener.Addr())
			w.at("", "[2001:db8::7]:80", web(t, "by IPv6").Listener.Addr())
			local := web(t, "on this machine")
			w.at("", "127.0.0.1:5432", local.Listener.Addr())
			w.names["evil.example"] = []netip.Addr{netip.MustParseAddr("93.184.216.35")}
			g := guard(t, way, w, []string{"api.example.com:8080", "10.1.2.3:80", "[2001:db8::7]:80", "localhost:5432"}, nil)

			for _, c := range []struct{ url, want string }{
				{"http://api.example.com:8080/a", "hello api.example.com:8080/a"},
				{"http://API.Example.COM:8080/a", "hello api.example.com:8080/a"},
				{"http://api.example.com.:8080/a", "hello api.example.com.:8080/a"},
				{"http://10.1.2.3/b", "by address 10.1.2.3/b"},
				{"http://[2001:db8::7]/c", "by IPv6 [2001:db8::7]/c"},
				{"http://localhost:5432/d", "on this machine localhost:5432/d"},
			} {
				out, code := g.Run(t, "curl", "-sS", "--max-time", "20", c.url)
				if code != 0 || !strings.EqualFold(out, c.want) {
					t.Errorf("%s: %q, exit %d, want %q", c.url, out, code, c.want)
				}
			}
			out, code := g.Run(
				t,
				"python3",
				"-c",
				"import urllib.request as u; print(u.urlopen('http://api.example.com:8080/p').read().decode())",
			)
			if code != 0 || strings.TrimSpace(out) != "hello api.example.com:8080/p" {
				t.Errorf("python: %q, exit %d", out, code)
			}
			if conn, err := g.Dial("tcp", "api.example.com:8080"); err != nil {
				t.Errorf("a Go program: %v", err)
			} else {
				conn.Close()
			}
			g.expect(t, "api.example.com:8080", true, "api.example.com:8080")
			g.expect(t, "10.1.2.3:80", true, "10.1.2.3:80")
			g.gate.Ended()
			if g.has("UDP", false, "") || g.has("UDP over IPv6", false, "") {
				t.Errorf("what these programs do is taken for UDP to the outside: %+v", g.attempts)
			}

			for _, c := range []struct {
				url, target string
				want        []string
			}{
				{"http://evil.example/", "evil.example", []string{"Could not resolve host"}},
				{"http://sub.api.example.com:8080/", "sub.api.example.com", []string{"Could not resolve host"}},
				{"http://c2VjcmV0.tunnel.evil.example/", "c2vjcmv0.tunnel.evil.example", []string{"Could not resolve host"}},
				{"http://api.example.com:8081/", "api.example.com:8081", []string{"onnect"}},
				{"http://93.184.216.34:8080/", "93.184.216.34:8080", []string{"onnect"}},
				{"http://169.254.169.254/latest/", "169.254.169.254:80", []string{"onnect"}},
				{"http://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]:80", []string{"onnect"}},
				{"http://198.18.200.200/", "198.18.200.200:80", []string{"onnect"}},
				{"http://8.8.8.8:53/", "8.8.8.8:53", []string{"onnect"}},
			} {
				begun := time.Now()
				out, code := g.Run(t, "curl", "-sS", "--max-time", "20", c.url)
				if code == 0 || code == 28 ||
					!slices.ContainsFunc(c.want, func(w string) bool { return strings.Contains(out, w) }) {
					t.Errorf("%s: exit %d after %s, %s", c.url, code, time.Since(begun), out)
				}
				g.expect(t, c.target, false, "net.allow has no rule for "+c.target)
			}
			if _, err := g.Dial("udp", "8.8.8.8:53"); err == nil {
				t.Error("a datagram may go to 8.8.8.8:53")
			}
			g.gate.Ended()
			if !g.has("UDP", false, "UDP does not leave a cage") {
				t.Error("a datagram to 8.8.8.8:53 is not told")
			}
			lookups, dialled := w.asked()
			for _, host := range lookups {
				if host != "api.example.com" {
					t.Errorf("%s was looked up outside", host)
				}
			}
			for _, to := range dialled {
				if _, ok := w.servers[to]; !ok {
					t.Errorf("%s was connected to", to)
				}
			}
		})
	}
}

// A connection goes to the address that was checked. A name that resolves first to a public address and then to a
// private one gets no connection the second time, and never one to an unchecked address.
func TestRebinding(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.at("api.example.com", "93.184.216.34:80", web(t, "public").Listener.Addr())
	inside := web(t, "this machine")
	w.at("", "127.0.0.1:80", inside.Listener.Addr())
	g := guard(t, netnstest.User, w, []string{"api.example.com:80"}, nil)
	if out, code := g.Run(t, "curl", "-sS", "http://api.example.com/"); code != 0 || !strings.HasPrefix(out, "public") {
		t.Errorf("the first time: %q, exit %d", out, code)
	}
	for _, bad := range []string{
		"127.0.0.1", "::1", "10.0.0.8", "169.254.169.254", "::ffff:10.0.0.1", "fd00::5", "0.0.0.0", "198.18.0.2",
		"64:ff9b::7f00:1", "2002:7f00:1::1",
	} {
		w.mu.Lock()
		w.names["api.example.com"] = []netip.Addr{netip.MustParseAddr(bad)}
		w.mu.Unlock()
		out, code := g.Run(t, "curl", "-sS", "--max-time", "20", "http://api.example.com/")
		if code == 0 || code == 28 {
			t.Errorf("%s: %q, exit %d", bad, out, code)
		}
		g.expect(t, "api.example.com:80", false, "api.example.com resolves to "+bad+", which is ")
	}
	_, dialled := w.asked()
	if len(dialled) != 1 {
		t.Errorf("dialled %v, want the public address once", dialled)
	}
	// Of several addresses the public ones are used.
	w.mu.Lock()
	w.names["api.example.com"] = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("93.184.216.34")}
	w.mu.Unlock()
	if out, code := g.Run(t, "curl", "-sS", "http://api.example.com/"); code != 0 || !strings.HasPrefix(out, "public") {
		t.Errorf("with a public address among others: %q, exit %d", out, code)
	}
}

// Hosts listed by the operator may be on a private network, but not at the addresses of metadata services.
func TestPrivateHosts(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.at("npm.corp.example", "10.0.0.9:80", web(t, "registry").Listener.Addr())
	w.at("other.example", "10.0.0.9:80", web(t, "registry").Listener.Addr())
	g := guard(t, netnstest.User, w, []string{"npm.corp.example:80", "other.example:80"}, func(o *Options) {
		o.PrivateHosts = []string{"*.corp.example"}
	})
	if out, code := g.Run(t, "curl", "-sS", "http://npm.corp.example/"); code != 0 || !strings.HasPrefix(out, "registry") {
		t.Errorf("a listed name: %q, exit %d", out, code)
	}
	if out, code := g.Run(t, "curl", "-sS", "http://other.example/"); code == 0 {
		t.Errorf("another name: %q", out)
	}
	g.expect(t, "other.example:80", false, "an operator may allow it by private_hosts")
	w.mu.Lock()
	w.names["npm.corp.example"] = []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	w.mu.Unlock()
	if out, code := g.Run(t, "curl", "-sS", "http://npm.corp.example/"); code == 0 {
		t.Errorf("a listed name with a metadata address: %q", out)
	}
}

// Queries by TCP, several on a connection and in pieces, are answered like those by UDP; other data ends the
// connection.
func TestLookupsByStream(t *testing.T) {
	t.Parallel()
	g := guard(t, netnstest.User, newWorld(), []string{"a.example:443"}, nil)
	dial := func() net.Conn {
		conn, err := g.Dial("tcp", "127.0.0.1:53")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	framed := func(query []byte) []byte { return append([]byte{byte(len(query) >> 8), byte(len(query))}, query...) }
	conn := dial()
	queries := append(
		framed(ask(dnsmessage.TypeA, dnsmessage.ClassINET, "a", "example")),
		framed(ask(dnsmessage.TypeA, dnsmessage.ClassINET, "b", "example"))...)
	for _, b := range queries {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []dnsmessage.RCode{dnsmessage.RCodeSuccess, dnsmessage.RCodeNameError} {
		head := make([]byte, 2)
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, swap(head))
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(body); err != nil || m.RCode != want {
			t.Errorf("%+v, %v, want %s", m, err, want)
		}
	}
	g.expect(t, "b.example", false, "no rule for b.example")
	for name, query := range map[string][]byte{
		"too long": {0xff, 0xff}, "nothing": {0, 0}, "half a header": {0, 3, 1, 2, 3},
	} {
		conn := dial()
		_, _ = conn.Write(query) // the connection may have ended
		if got, _ := io.ReadAll(conn); len(got) > 0 {
			t.Errorf("%s was answered by % x", name, got)
		}
	}
}

// A silent address of a name does not delay the others, a connection that answers too late is closed, and a silent
// resolver is not awaited.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.at("a.example", "93.184.216.34:80", web(t, "hello").Listener.Addr())
	w.names["a.example"] = append([]netip.Addr{netip.MustParseAddr("93.184.216.99")}, w.names["a.example"]...)
	w.names["dark.example"] = []netip.Addr{netip.MustParseAddr("93.184.216.99")}
	g := guard(t, netnstest.User, w, []string{"a.example:80", "mute.example:80", "dark.example:80"}, func(o *Options) {
		o.ResolveTimeout, o.ConnectTimeout = 50*time.Millisecond, time.Second
		o.Outside.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			if host == "mute.example" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return w.lookup(ctx, host)
		}
		o.Outside.Dial = func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
			if to.Addr() == netip.MustParseAddr("93.184.216.99") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return w.dial(ctx, to)
		}
	})
	if out, code := g.Run(t, "curl", "-sS", "http://a.example/"); code != 0 || !strings.HasPrefix(out, "hello") {
		t.Errorf("with a silent address first: %q, exit %d", out, code)
	}
	for target, why := range map[string]string{
		"mute.example:80": "mute.example cannot be resolved: it does not answer",
		"dark.example:80": "dark.example:80 cannot be reached: it does not answer",
	} {
		if out, code := g.Run(t, "curl", "-sS", "http://"+target); code == 0 {
			t.Errorf("%s: %q", target, out)
		}
		g.expect(t, target, false, why)
	}
}

// The maximum number of rules in a policy, each with its listener, is set up and served.
func TestManyRules(t *testing.T) {
	t.Parallel()
	var rules []string
	for n := range 256 {
		rules = append(rules, fmt.Sprintf("host%d.example:80", n))
	}
	w := newWorld()
	w.at("host255.example", "93.184.216.34:80", web(t, "the last").Listener.Addr())
	g := guard(t, netnstest.User, w, rules, nil)
	if out, code := g.Run(t, "curl", "-sS", "http://host255.example/"); code != 0 || !strings.HasPrefix(out, "the last") {
		t.Errorf("%q, exit %d", out, code)
	}
}

// A host that cannot be resolved or reached fails at once with the reason, under the rule's name.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.names["dead.example"] = []netip.Addr{netip.MustParseAddr("93.184.216.40")}
	g := guard(t, netnstest.User, w, []string{"dead.example:80", "gone.example:80"}, nil)
	for target, why := range map[string]string{
		"dead.example:80": "dead.example:80 cannot be reached: nobody is there",
		"gone.example:80": "gone.example cannot be resolved: no such host",
	} {
		if _, code := g.Run(t, "curl", "-sS", "--max-time", "20", "http://"+target); code == 0 || code == 28 {
			t.Errorf("%s: exit %d", target, code)
		}
		g.expect(t, target, false, why)
	}
}

package box_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// network is a cage with network rules, and the attempts it reported.
type network struct {
	core.Box
	dir      string
	told     chan struct{} // capacity 1: attempts has grown
	mu       sync.Mutex    // guards attempts
	attempts []contract.Attempt
}

// times returns the number of refused attempts reported for target.
func (n *network) times(target string) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.attempts {
		if a.Target == target && !a.Allowed {
			times += int(a.Count)
		}
	}
	return times
}

// reach opens a cage with a network that resolves every name to server.
func reach(t *testing.T, server *httptest.Server, rules ...string) *network {
	t.Helper()
	n := &network{dir: project(t), told: make(chan struct{}, 1)}
	view := &cage.View{Grants: []cage.Grant{rw(n.dir)}}
	for _, text := range rules {
		rule, err := cage.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		view.Net = append(view.Net, rule)
	}
	outside := egress.Outside{
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
			if to.Addr() != netip.MustParseAddr("93.184.216.34") {
				return nil, errors.New("nobody is there")
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", server.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return conn.(*net.TCPConn), nil
		},
		Roots: x509.NewCertPool(),
	}
	if cert := server.Certificate(); cert != nil {
		outside.Roots.AddCert(cert)
	}
	b := boxes(t, func(o *box.Options) {
		o.Egress = egress.Options{
			Limits: egress.Limits{
				Connections: 64, ResolveTimeout: time.Minute, ConnectTimeout: time.Minute, HelloTimeout: time.Minute,
				IdleTimeout: time.Minute, BodyBytes: 1 << 20,
			},
			Outside: outside,
			Credentials: []egress.Credential{
				{Host: "example.com", Port: 443, Header: "Authorization", Value: "Bearer not-for-the-cage"},
			},
		}
	})
	var err error
	n.Box, err = b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: view}, func(a contract.Attempt) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.attempts = append(n.attempts, a)
		select {
		case n.told <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// tried closes the cage and returns whether an attempt was reported before that.
func (n *network) tried(target string, allowed bool) bool {
	n.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	is := func(a contract.Attempt) bool { return a.Target == target && a.Allowed == allowed }
	return slices.ContainsFunc(n.attempts, is)
}

// A cage reaches only the names of its policy, with the program's own TLS or with a credential that it never sees.
// Every attempt is reported.
func TestNetwork(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = fmt.Fprintf(w, "%s knows %q", req.Host, req.Header.Get("Authorization"))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	n := reach(t, server, "example.com:443")
	fetch := `import urllib.request as u; print(u.urlopen("http://example.com/").read().decode(), end="")`
	masked := `example.com knows "` + strings.Repeat("*", len("Bearer not-for-the-cage")) + `"`
	for command, want := range map[string]string{
		"curl -sSk https://example.com/":                      `example.com knows ""`,
		"curl -sS http://example.com/":                        masked,
		`/usr/bin/python3 -c '` + fetch + `'`:                 masked,
		"getent ahosts example.com | cut -d' ' -f1 | sort -u": "198.18.0.2\n",
	} {
		if out, end := run(t, n, n.dir, command); out != want || end.Code != 0 {
			t.Errorf("%s: %q, exit %d, want %q", command, out, end.Code, want)
		}
	}
	if n.times("UDP")+n.times("UDP over IPv6") > 0 {
		t.Errorf("what these programs do is taken for UDP to the outside: %+v", n.attempts)
	}
	for _, command := range []string{
		"curl -sS --max-time 20 https://evil.example/", "curl -sS --max-time 20 https://example.com:8443/",
		"curl -sS --max-time 20 http://169.254.169.254/", "curl -sS --max-time 20 'http://[2606:4700::1111]/'",
		"curl -sSk --max-time 20 --connect-to evil.example:443:example.com:443 https://evil.example/",
		"curl -sS --max-time 20 http://" + server.Listener.Addr().String(),
	} {
		if out, end := run(t, n, n.dir, command); end.Code == 0 || end.Code == 28 {
			t.Errorf("%s: %q, exit %d", command, out, end.Code)
		}
	}
	for target, allowed := range map[string]bool{
		"example.com:443": true, "example.com:443 (with credential)": true, "evil.example": false, "example.com:8443": false,
		"169.254.169.254:80": false, "[2606:4700::1111]:80": false, "evil.example:443": false,
	} {
		if !n.tried(target, allowed) {
			t.Errorf("no attempt at %s, allowed %t, in %+v", target, allowed, n.attempts)
		}
	}
}

// A cage without rules has its own loopback and no other network, and its attempts are reported.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	n := reach(t, server)
	if out, end := run(t, n, n.dir,
		"/usr/bin/python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1 & "+
			"until curl -sS http://localhost:8080/ >/dev/null 2>&1; do :; done"); end.Code != 0 {
		t.Errorf("its own loopback: %q, exit %d", out, end.Code)
	}
	for _, command := range []string{
		"curl -sS --max-time 20 https://example.com/", "curl -sS --max-time 20 http://93.184.216.34/",
		"curl -sS --max-time 20 http://" + server.Listener.Addr().String(),
	} {
		if out, end := run(t, n, n.dir, command); end.Code == 0 || end.Code == 28 {
			t.Errorf("%s: %q, exit %d", command, out, end.Code)
		}
	}
	if !n.tried("example.com", false) || !n.tried("93.184.216.34:80", false) {
		t.Errorf("attempts are %+v", n.attempts)
	}
}

// UDP to the outside is refused at once. Each attempt is reported at the command's end, even for a very short command
// with or without a terminal; attempts of a long command are reported while it runs.
func TestUDP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	n := reach(t, server, "example.com:443")
	for i, c := range []struct {
		address, target string
		terminal        bool
	}{
		{"8.8.8.8", "UDP", false},
		{"8.8.8.8", "UDP", true},
		{"2001:4860:4860::8888", "UDP over IPv6", false},
		{"9.9.9.9", "UDP", false},
		{"2001:4860:4860::8888", "UDP over IPv6", true},
	} {
		before := n.times(c.target)
		out, end := run(t, n, n.dir, "exec bash -c 'echo x >/dev/udp/"+c.address+"/53'", func(s *core.Spec) {
			if c.terminal {
				s.Terminal = &core.Size{Cols: 80, Rows: 24}
			}
		})
		told := n.times(c.target) - before
		if told != 1 || !strings.Contains(out, "Network is unreachable") || end.Code != 1 {
			t.Errorf("%d: %d times %s are told of one to %s that ended with %d: %s", i, told, c.target, c.address, end.Code, out)
		}
	}
	p, err := n.Spawn(t.Context(), core.Spec{
		Argv: []string{"/bin/bash", "-c", "while sleep 0.1; do echo x >/dev/udp/8.8.8.8/53; done"},
		Dir:  n.dir, Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		p.Copy(func(core.Stream, []byte) {})
	}()
	before := n.times("UDP")
	for limit := time.Now().Add(time.Minute); n.times("UDP") == before; {
		select {
		case <-p.Exited():
			t.Fatal("the command has ended")
		case <-n.told:
		case <-time.After(time.Until(limit)):
			t.Fatal("nothing is told while the command runs")
		}
	}
	p.Kill()
	<-p.Exited()
	<-copied
}

// Closing a cage in the midst of traffic closes its connections outside.
func TestNetworkEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	n := reach(t, server, "example.org:80")
	p, err := n.Spawn(t.Context(), core.Spec{
		Argv: []string{"/usr/bin/curl", "-sS", "http://example.org/"}, Dir: n.dir, Merge: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	p.Copy(func(core.Stream, []byte) { once.Do(func() { go n.Close() }) })
	<-n.Gone()
	<-ended
}

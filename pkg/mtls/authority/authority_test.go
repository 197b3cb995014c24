package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
)

// A CA is made once in a folder. Only the owner can read keys.
func TestInit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "ca")
	if _, err := authority.Open(dir); fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(),
		"kaged certs init") {
		t.Errorf("open nothing: got %v, want not_found that says what to type", err)
	}
	if err := authority.Init(dir, time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := authority.Init(dir, time.Hour, time.Now()); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a second CA: got %v, want conflict", err)
	}
	ca, err := authority.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := ca.Issue(authority.Request{
		Identity: mtls.Identity{Service: "tool-runner", Workspace: "blue"},
		Valid:    time.Hour,
	}, time.Now())
	if err != nil || made != filepath.Join(dir, "tool-runner.blue") {
		t.Fatalf("got %q, %v, want the folder tool-runner.blue", made, err)
	}
	for path, want := range map[string]os.FileMode{
		filepath.Join(dir, "ca.key"): 0o600, filepath.Join(made, "tls.key"): 0o600, filepath.Join(made, "tls.crt"): 0o644,
		dir: 0o700 | os.ModeDir,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A service's certificate serves and calls, a debugging certificate only calls, a store's serves only under its names;
// all end at the latest with their CA.
func TestIssue(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	if err := authority.Init(dir, time.Hour, now); err != nil {
		t.Fatal(err)
	}
	ca, err := authority.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for _, c := range []struct {
		request authority.Request
		names   string
		usage   []x509.ExtKeyUsage
	}{
		{authority.Request{Identity: mtls.Identity{Service: "issue"}}, "issue.kaged", []x509.ExtKeyUsage{server, client}},
		{
			authority.Request{Identity: mtls.Identity{Service: "debug"}, Name: "by ada"},
			"debug.kaged",
			[]x509.ExtKeyUsage{client},
		},
		{
			authority.Request{Store: "nats", Hosts: []string{"nats.lan", "10.0.0.9"}},
			"nats.kaged nats.lan 10.0.0.9",
			[]x509.ExtKeyUsage{server},
		},
	} {
		c.request.Valid = 24 * time.Hour
		made, until, err := ca.Issue(c.request, now)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(made, "tls.crt"), filepath.Join(made, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		got := pair.Leaf.DNSNames
		for _, ip := range pair.Leaf.IPAddresses {
			got = append(got, ip.String())
		}
		if strings.Join(got, " ") != c.names {
			t.Errorf("got the names %v, want %s", got, c.names)
		}
		if len(pair.Leaf.ExtKeyUsage) != len(c.usage) || pair.Leaf.ExtKeyUsage[0] != c.usage[0] {
			t.Errorf("%s: got the uses %v, want %v", c.names, pair.Leaf.ExtKeyUsage, c.usage)
		}
		if until.Sub(now) > time.Hour || pair.Leaf.IsCA {
			t.Errorf("%s: valid until %v, a CA: %v", c.names, until, pair.Leaf.IsCA)
		}
	}
	for name, r := range map[string]authority.Request{
		"an unknown service": {Identity: mtls.Identity{Service: "web"}, Valid: time.Hour},
		"a workspace's name": {Identity: mtls.Identity{Service: "lsp-pool", Workspace: "a.b"}, Valid: time.Hour},
		"an unknown store":   {Store: "redis", Valid: time.Hour},
		"no time":            {Identity: mtls.Identity{Service: "issue"}, Valid: -time.Hour},
	} {
		if _, _, err := ca.Issue(r, now); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: got %v, want bad_request", name, err)
		}
	}
}

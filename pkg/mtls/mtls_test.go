package mtls_test

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
	"kaged.dev/pkg/testkit/certs"
)

// A certificate names one service, with a workspace if it is a service of one; other names give no identity.
func TestIdentityOf(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]string{
		"harness.kaged": "harness.kaged", "tool-runner.blue.kaged": "tool-runner.blue.kaged", "debug.kaged": "debug.kaged",
		"harness.kaged box.lan": "harness.kaged",
		"":                      "", "box.lan": "", "harness": "", "kaged": "", ".kaged": "", "harness.kaged.example": "",
		"Harness.kaged":      "",
		"harness.blue.kaged": "", "tool-runner.-.kaged": "", "tool-runner.a.b.kaged": "", "tool-runner..kaged": "",
		"*.kaged":        "",
		"postgres.kaged": "", "harness.kaged gateway.kaged": "", "debug.blue.kaged": "", "tool-runner.Blue.kaged": "",
	} {
		id, err := mtls.IdentityOf(&x509.Certificate{DNSNames: strings.Fields(names)})
		got := ""
		if err == nil {
			got = id.String()
		}
		if got != want {
			t.Errorf("%q: got %q, %v, want %q", names, got, err, want)
		}
	}
}

// Services returns the names of the folders of services, and WorkspaceServices some of them.
func TestServices(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Glob("../../services/*/module.go")
	if err != nil || len(modules) == 0 {
		t.Fatalf("services with a module.go: %v, %v", modules, err)
	}
	var want []string
	for _, module := range modules {
		want = append(want, filepath.Base(filepath.Dir(module)))
	}
	if got := slices.Sorted(slices.Values(mtls.Services())); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := mtls.WorkspaceServices(); !slices.Contains(got, "tool-runner") || slices.Contains(got, "gateway") {
		t.Errorf("got %q for a workspace, want the services beside a project's files", got)
	}
}

// Files without a valid identity are refused with the file and the cause.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	expired := expire(t, ca)
	good, other := ca.Issue("harness"), certs.New(t).Issue("harness")
	store := ca.Sign(authority.Request{Store: "nats", Valid: time.Hour})
	for name, c := range map[string]struct {
		files mtls.Files
		want  string
	}{
		"no key file":       {mtls.Files{CA: good.CA, Cert: good.Cert}, "not key_file"},
		"a missing file":    {mtls.Files{CA: good.CA, Cert: good.Cert + "x", Key: good.Key}, "tls.crtx cannot be read"},
		"a folder":          {mtls.Files{CA: t.TempDir(), Cert: good.Cert, Key: good.Key}, "is not a regular file"},
		"a key as a bundle": {mtls.Files{CA: good.Key, Cert: good.Cert, Key: good.Key}, "holds no certificate of a CA"},
		"another's key": {
			mtls.Files{CA: good.CA, Cert: good.Cert, Key: other.Key},
			"are not a certificate and its key",
		},
		"another CA":          {mtls.Files{CA: other.CA, Cert: good.Cert, Key: good.Key}, "is not valid with"},
		"an expired one":      {expired, "kaged certs issue DIR harness"},
		"one of a store":      {store, "nats.kaged"},
		"a good one":          {good, ""},
		"a debugging one too": {ca.Issue("debug"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mtls.Load(c.files, slog.New(slog.DiscardHandler))
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			if fault.CodeOf(err) != fault.BadRequest || !strings.Contains(fault.From(err).Msg, c.want) {
				t.Errorf("got %v, want bad_request with %q", err, c.want)
			}
		})
	}
}

// expire returns the files of an expired certificate.
func expire(t *testing.T, ca *certs.CA) mtls.Files {
	t.Helper()
	open, err := authority.Open(ca.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := open.Issue(authority.Request{Identity: mtls.Identity{Service: "harness"}, Valid: time.Minute},
		time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	// The service's next certificate replaces this one.
	moved := t.TempDir() + "/expired"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	return certs.Files(moved)
}

// New files are used from the next check; unusable ones and another identity are logged once and not used.
func TestLook(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	files := ca.Issue("harness")
	var log bytes.Buffer
	m, err := mtls.Load(files, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	look := func(what, logged string) {
		t.Helper()
		log.Reset()
		m.Look()
		if got := log.String(); strings.Count(got, logged) != 1 && logged != "" || logged == "" && strings.Contains(got,
			"new certificates") {
			t.Errorf("%s: logged %q, want %q", what, got, logged)
		}
	}
	serial := func() string {
		cfg, err := m.Server().GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Certificates[0].Leaf.SerialNumber.String()
	}
	first := serial()
	look("unchanged", "")
	ca.Issue("harness")
	look("a new one", "certificates are renewed")
	second := serial()
	if second == first {
		t.Error("the new certificate was not taken")
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(files.Key, "half a k")
	look("half a key", "cannot be used")
	look("half a key again", "")
	if err := os.Remove(files.Cert); err != nil {
		t.Fatal(err)
	}
	look("no certificate", "cannot be read")
	look("no certificate again", "")
	other := ca.Issue("gateway")
	for from, to := range map[string]string{other.Cert: files.Cert, other.Key: files.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(to, string(text))
	}
	look("another service's", "names gateway.kaged, and this process runs as harness.kaged")
	if serial() != second {
		t.Error("an unusable certificate replaced the last good one")
	}
	ca.Issue("harness")
	look("a good one again", "certificates are renewed")
}

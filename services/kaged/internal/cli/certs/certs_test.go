package certs_test

import (
	"bytes"
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/mtls"
	"kaged.dev/services/kaged/internal/cli"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// command runs kaged and returns its exit code and its output.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), kit.App{
		Args: args, Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

// The commands create a CA and a certificate for each service, of a workspace, of a store, and for debugging. stdout
// has the folder of the files.
func TestCerts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	if code, out, errs := command(t, "certs", "init", dir); code != 0 || out != filepath.Join(dir, "ca.crt")+"\n" ||
		!strings.Contains(errs, "kaged certs issue") {
		t.Fatalf("init ended with %d: %q, %q", code, out, errs)
	}
	for _, c := range []struct {
		args  string
		names string
		days  float64
	}{
		{"issue DIR harness", "harness.kaged", 90},
		{"issue DIR tool-runner --workspace blue --days 7", "tool-runner.blue.kaged", 7},
		{"issue DIR nats --host nats.lan", "nats.kaged nats.lan", 90},
		{"debug DIR", "debug.kaged", 1},
		{"debug DIR --valid 1h", "debug.kaged", 1. / 24},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))
		code, out, errs := command(t, append([]string{"certs"}, args...)...)
		made := strings.TrimSpace(out)
		if code != 0 || filepath.Dir(made) != dir || !strings.Contains(errs, "is valid until") {
			t.Fatalf("%s ended with %d: %q, %q", c.args, code, out, errs)
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(made, "tls.crt"), filepath.Join(made, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		days := time.Until(pair.Leaf.NotAfter).Hours() / 24
		if got := strings.Join(pair.Leaf.DNSNames, " "); got != c.names || days > c.days || days < c.days*0.99 {
			t.Errorf("%s: got %s for %.2f days, want %s for %.2f", c.args, got, days, c.names, c.days)
		}
	}
	if code, _, errs := command(t, "certs", "init", dir); code != kit.ExitFailed || !strings.Contains(errs,
		"holds a CA already") {
		t.Errorf("a second init ended with %d: %q", code, errs)
	}
}

// The error for invalid arguments names the mistake and the valid choices.
func TestCertsMisused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"init":                                  "takes DIR",
		"issue DIR":                             "takes DIR SERVICE",
		"issue DIR web":                         strings.Join(mtls.Services(), ", "),
		"issue DIR debug":                       "kaged certs debug DIR",
		"issue DIR harness --workspace blue":    "belongs to no workspace",
		"issue DIR tool-runner --workspace a.b": "has 1 to 63 of",
		"issue DIR harness --host harness.lan":  "--host is only for postgres and nats",
		"issue DIR nats --workspace blue":       "belongs to no workspace",
		"issue DIR harness --days 0":            "--days is 0",
		"debug DIR --valid 1000h":               "at most 168h",
	} {
		if code, _, errs := command(t, append([]string{"certs"}, strings.Fields(args)...)...); code != kit.ExitUsage ||
			!strings.Contains(errs, want) {
			t.Errorf("%s ended with %d: %q, want %d and %q", args, code, errs, kit.ExitUsage, want)
		}
	}
	if code, _, errs := command(t, "certs", "issue", t.TempDir(), "harness"); code == 0 || !strings.Contains(errs,
		"kaged certs init") {
		t.Errorf("without a CA it ended with %d: %q", code, errs)
	}
}

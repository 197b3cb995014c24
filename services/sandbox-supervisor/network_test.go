package sandboxsupervisor

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
)

// A credential's value comes from the environment; it is empty without a variable, and never shown.
func TestCredentials(t *testing.T) {
	t.Setenv("KAGED_TEST_TOKEN", "s3cr3t-of-the-environment")
	t.Setenv("KAGED_TEST_LINES", "two\nlines")
	file := config.File{
		Path: "local.toml",
		Services: map[string]map[string]any{"sandbox-supervisor": {"credentials": map[string]any{
			"api.github.com:443":  map[string]any{"header": "Authorization", "value": "Bearer ${KAGED_TEST_TOKEN}"},
			"Literal.example:443": map[string]any{"header": "X-Key", "value": "s3cr3t-of-the-file"},
			"missing.example:443": map[string]any{"header": "X-Key", "value": "${KAGED_TEST_NOWHERE}"},
			"lines.example:8443":  map[string]any{"header": "X-Key", "value": "${KAGED_TEST_LINES}"},
		}}},
	}
	cfg := DefaultConfig()
	if err := file.Decode("sandbox-supervisor", &cfg, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	got := map[string]string{}
	for _, c := range cfg.egress(slog.New(slog.NewTextHandler(&log, nil))).Credentials {
		got[fmt.Sprintf("%s:%d", c.Host, c.Port)] = c.Header + "=" + string(c.Value) + c.Missing
	}
	for at, want := range map[string]string{
		"api.github.com:443":  "Authorization=Bearer s3cr3t-of-the-environment",
		"literal.example:443": "X-Key=s3cr3t-of-the-file",
		"missing.example:443": "X-Key=the credential of missing.example:443 refers to ${KAGED_TEST_NOWHERE}, which is not " +
			"set where kaged runs",
		"lines.example:8443": "X-Key=the credential of lines.example:8443 has characters that no header may have",
	} {
		if got[at] != want {
			t.Errorf("%s: %q, want %q", at, got[at], want)
		}
	}
	if shown := log.String() + fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg); strings.Contains(shown, "s3cr3t") {
		t.Errorf("a secret is shown: %s", shown)
	}
	for _, warning := range []string{"keep it in the environment", "KAGED_TEST_NOWHERE"} {
		if !strings.Contains(log.String(), warning) {
			t.Errorf("nobody is warned: no %q in %s", warning, log.String())
		}
	}
}

// Malformed credentials and hosts are refused with the correct form.
func TestHosts(t *testing.T) {
	t.Parallel()
	for at, c := range map[string]Credential{
		"api.github.com":     {Header: "Authorization", Value: "x"},
		"10.0.0.1:443":       {Header: "Authorization", Value: "x"},
		"*.github.com:443":   {Header: "Authorization", Value: "x"},
		"host.example:443":   {Header: "Host", Value: "x"},
		"line.example:443":   {Header: "X\nY", Value: "x"},
		"nobody.example:443": {Header: "Authorization", Value: " "},
	} {
		cfg := DefaultConfig()
		cfg.Credentials = map[string]Credential{at: c}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", at, err)
		}
	}
	cfg := DefaultConfig()
	cfg.Credentials = map[string]Credential{
		"a.example:443":  {Header: "A", Value: "x"},
		"a.example:8443": {Header: "A", Value: "x"},
	}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "http://a.example/") {
		t.Errorf("two for a host: %v", err)
	}
	for host, ok := range map[string]bool{
		"npm.corp.example": true, "*.corp.example": true, "*": false, "*corp.example": false, "A.example": false,
		"10.0.0.1": false, "a.example:443": false, "": false,
	} {
		cfg := DefaultConfig()
		cfg.PrivateHosts = []string{host}
		if err := cfg.Validate(); (err == nil) != ok {
			t.Errorf("private_hosts %q: %v", host, err)
		}
	}
}

package host

import (
	"log/slog"
	"net"
	"testing"

	"kaged.dev/pkg/config"
)

// The metrics address comes, in this order, from the environment for the service, from the service's table, from the
// environment for all services, and from [telemetry].
func TestMetricsListen(t *testing.T) {
	t.Parallel()
	file := &config.File{
		Telemetry: config.Telemetry{MetricsListen: "127.0.0.4:0"},
		Services:  map[string]map[string]any{"harness": {"metrics_listen": "127.0.0.2:0"}},
	}
	for _, c := range []struct {
		service string
		env     map[string]string
		want    string
	}{
		{"harness", map[string]string{"KAGED_SERVICES_HARNESS_METRICS_LISTEN": "127.0.0.1:0"}, "127.0.0.1"},
		{"harness", map[string]string{"KAGED_METRICS_LISTEN": "127.0.0.3:0"}, "127.0.0.2"},
		{"issue", map[string]string{"KAGED_METRICS_LISTEN": "127.0.0.3:0"}, "127.0.0.3"},
		{"issue", nil, "127.0.0.4"},
		{"", nil, "127.0.0.4"},
	} {
		kit, err := StartTelemetry(t.Context(), "probe", c.service, file, slog.New(slog.DiscardHandler),
			func(k string) string { return c.env[k] })
		if err != nil {
			t.Fatal(err)
		}
		if at, _, _ := net.SplitHostPort(kit.MetricsAddress); at != c.want {
			t.Errorf("%q with %v: %s, want %s", c.service, c.env, at, c.want)
		}
		kit.Stop()
	}
}

// Langfuse defaults to its cloud and to the usual names of its keys, and needs both keys.
func TestLangfuse(t *testing.T) {
	t.Parallel()
	env := map[string]string{"KAGED_LANGFUSE_PUBLIC_KEY": "pk", "KAGED_LANGFUSE_SECRET_KEY": "sk", "OTHER": "other"}
	getenv := func(k string) string { return env[k] }
	l := langfuse(config.Langfuse{}, getenv)
	if l == nil || l.BaseURL != langfuseURL || l.PublicKey != "pk" || l.SecretKey != "sk" {
		t.Errorf("%+v", l)
	}
	l = langfuse(config.Langfuse{BaseURL: "http://l:3000", PublicKeyEnv: "OTHER"}, getenv)
	if l == nil || l.BaseURL != "http://l:3000" || l.PublicKey != "other" {
		t.Errorf("%+v", l)
	}
	if l := langfuse(config.Langfuse{SecretKeyEnv: "ABSENT"}, getenv); l != nil {
		t.Errorf("%+v", l)
	}
}

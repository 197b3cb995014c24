package host_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
)

// The three probes differ: an outage of a store fails only readiness, a start completes once, and a draining process is
// live and not ready.
func TestProbes(t *testing.T) {
	t.Parallel()
	address := testkit.Address()
	opts := options(t)
	file, err := config.Parse("local.toml", fmt.Appendf(nil, "[telemetry]\nprobe_listen = %q\n", address))
	if err != nil {
		t.Fatal(err)
	}
	opts.File = file
	f := &fickle{probe: newProbe("probe", &journal{})}
	f.away.Store(true)
	draining, drained := make(chan struct{}), make(chan struct{})
	f.drain = func(context.Context) { close(draining); <-drained }
	module := f.module()
	module.New = func(env *host.Env) (host.Service, error) { f.env = env; return f, nil }
	h, err := host.New(opts, module)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, h)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	want := func(when string, startup, live, ready int) {
		t.Helper()
		for path, code := range map[string]int{
			"/startupz": startup, "/livez": live, "/readyz": ready, "/": 404,
			"/metrics": 404,
		} {
			resp, err := client.Get("http://" + address + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != code {
				t.Errorf("%s: %s answers %d %q, want %d", when, path, resp.StatusCode, body, code)
			}
			if path == "/readyz" && code == 503 && !strings.HasSuffix(strings.TrimSpace(string(body)), ".") {
				t.Errorf("%s: %q is no sentence", when, body)
			}
		}
	}
	want("before the stores are there", 503, 200, 503)
	f.away.Store(false)
	want("ready", 200, 200, 200)
	f.away.Store(true)
	want("an outage", 200, 200, 503)
	f.away.Store(false)
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	<-draining
	want("it drains", 200, 200, 503)
	close(drained)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + address + "/livez"); err == nil {
		t.Error("probes are answered after the end")
	}
}

// A taken address stops the start, and the error names its key.
func TestProbesWhereSomebodyListens(t *testing.T) {
	t.Parallel()
	f, address := newProbe("probe", &journal{}), testkit.Address()
	opts := options(t)
	opts.Getenv = func(name string) string { return map[string]string{"KAGED_PROBE_LISTEN": address}[name] }
	first, err := host.New(opts, f.module())
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, first)()
	again := options(t)
	again.Getenv = opts.Getenv
	second, err := host.New(again, newProbe("probe", &journal{}).module())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context(), nil); fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(),
		"probe_listen") {
		t.Errorf("got %v, want unavailable that names probe_listen", err)
	}
}

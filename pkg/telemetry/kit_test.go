package telemetry

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/collector"
)

// start starts a Kit that is stopped with the test. The exporters read the environment of the process.
func start(t *testing.T, opts Options, env map[string]string) *Kit {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v)
	}
	opts.Service = "probe"
	opts.Getenv = func(k string) string { return env[k] }
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	k, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	return k
}

// Without configuration traces and metrics are off, and a nil Kit works the same way (H-OBS-LF-04).
func TestTelemetryIsOffByDefault(t *testing.T) {
	t.Parallel()
	off, err := Start(t.Context(), Options{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Kit{nil, off} {
		if k.Traces() || k.Metrics() || k != nil && len(k.Server)+len(k.Client) > 0 {
			t.Errorf("%+v", k)
		}
		k.Add(Runs, 1, "completed")
		k.Record(ToolSeconds, 1, "x")
		k.Observe(Leases, func() float64 { return 1 })
		_, span := k.Tracer("x").Start(t.Context(), "x")
		if span.IsRecording() {
			t.Error("a span is recorded")
		}
		k.Stop()
	}
}

// Invalid settings are refused in one sentence.
func TestRefusals(t *testing.T) {
	t.Parallel()
	taken := collector.BlackHole(t)
	for name, c := range map[string]struct {
		opts Options
		env  map[string]string
		want string
	}{
		"protocol": {
			env:  map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			want: `The protocol "http/json"`,
		},
		"taken":       {opts: Options{MetricsListen: taken}, want: "metrics_listen"},
		"no address":  {opts: Options{MetricsListen: "nowhere"}, want: "metrics_listen"},
		"no Langfuse": {opts: Options{Langfuse: &Langfuse{BaseURL: "ftp://x"}}, want: "[langfuse] base_url"},
	} {
		c.opts.Getenv = func(k string) string { return c.env[k] }
		_, err := Start(t.Context(), c.opts)
		if !errors.Is(err, fault.BadRequest) || !strings.Contains(fault.From(err).Msg, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Prometheus reads each metric under its name, with its labels, limited in number and in length.
func TestPrometheus(t *testing.T) {
	k := start(t, Options{MetricsListen: "127.0.0.1:0"}, nil)
	for _, m := range All() {
		labels := slices.Clone(m.Labels)
		k.Add(m, 2, labels...)
		k.Record(m, 2, labels...)
		if m.Kind == Gauge {
			k.Observe(m, func() float64 { return 2 })
			k.Observe(m, func() float64 { return 1 })
		}
	}
	k.Add(ToolCalls, 1, strings.Repeat("é", 1000)+"\xff", "ok")
	for i := range 2 * maxSeries {
		k.Add(RunFailures, 1, fmt.Sprint(i))
	}
	page := scrape(t, k)
	for _, m := range All() {
		suffix, value := "", "2"
		switch m.Kind {
		case Histogram:
			suffix, value = "_count", "1"
		case Gauge:
			value = "3"
		}
		var labels []string
		for _, l := range slices.Sorted(slices.Values(m.Labels)) {
			labels = append(labels, l+`="`+l+`"`)
		}
		line := m.Name + suffix
		if len(labels) > 0 {
			line += "{" + strings.Join(labels, ",") + "}"
		}
		if !strings.Contains(page, "\n"+line+" "+value+"\n") {
			t.Errorf("%s is not offered as %s %s", m.Name, line, value)
		}
	}
	if !strings.Contains(page, "go_goroutines ") || !strings.Contains(page, "process_resident_memory_bytes ") {
		t.Error("the process says nothing of itself")
	}
	if n := strings.Count(page, "\nkaged_run_failures_total{"); n > maxSeries {
		t.Errorf("one metric has %d series", n)
	}
	for line := range strings.Lines(page) {
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	k.Stop()
	k.Stop()
	k.Add(Runs, 1, "late")
}

func scrape(t *testing.T, k *Kit) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + k.MetricsAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", resp.Status, err)
	}
	return string(page)
}

// Traces and metrics go to a collector over HTTP.
func TestOTLPOverHTTP(t *testing.T) {
	c := collector.Start(t)
	k := start(t, Options{}, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue",
	})
	_, span := k.Tracer("scope").Start(t.Context(), "work")
	span.End()
	k.Add(Runs, 1, "completed")
	k.Stop()
	if s := c.Spans(); len(s) != 1 || s[0].GetName() != "work" || s[0].Scope != "scope" || s[0].Service != "kaged-probe" {
		t.Errorf("spans: %v", s)
	}
	if m := c.Metrics(); !slices.Equal(m, []string{Runs.Name}) {
		t.Errorf("metrics: %v", m)
	}
	for _, r := range c.Requests() {
		if r.Header.Get("X-Team") != "blue" {
			t.Errorf("%s has no header of ours", r.URL)
		}
	}
}

// Langfuse gets only the spans of agents, with its own keys, and without the headers of the collector.
func TestLangfuse(t *testing.T) {
	c, own := collector.Start(t), collector.Start(t)
	k := start(t, Options{Langfuse: &Langfuse{BaseURL: c.URL + "/", PublicKey: "pk", SecretKey: "sk"}}, map[string]string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": own.URL + "/v1/traces", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue",
	})
	ctx, span := k.Tracer("wire").Start(t.Context(), "call")
	_, agent := k.Tracer(AgentScope).Start(ctx, "invoke_agent x")
	agent.End()
	span.End()
	k.Stop()
	if s := c.Spans(); len(s) != 1 || s[0].GetName() != "invoke_agent x" {
		t.Errorf("Langfuse has %v", s)
	}
	if s := own.Spans(); len(s) != 2 {
		t.Errorf("the collector has %v", s)
	}
	for _, r := range c.Requests() {
		if r.URL.Path != "/api/public/otel/v1/traces" {
			t.Errorf("Langfuse was asked for %s; prompts are not kept there (H-OBS-NOT-01)", r.URL)
		}
	}
	r := c.Requests()[0]
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("pk:sk"))
	const path = "/api/public/otel/v1/traces"
	if h := r.Header; r.URL.Path != path || h.Get("Authorization") != want || h.Get("X-Team") != "" {
		t.Errorf("%s %v", r.URL, h)
	}
}

// A collector that accepts connections and never answers loses spans but delays no caller: more spans than the queue
// holds begin and end, and the process ends without waiting for it.
func TestBlackHole(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			hole := "http://" + collector.BlackHole(t)
			k := start(t, Options{
				MetricsListen: "127.0.0.1:0", Langfuse: &Langfuse{BaseURL: hole, PublicKey: "pk", SecretKey: "sk"},
			}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": hole, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
			for range 4 * maxQueue {
				_, span := k.Tracer(AgentScope).Start(t.Context(), "work", trace.WithNewRoot())
				span.End()
				k.Add(Runs, 1, "completed")
			}
			counted := fmt.Sprintf(`kaged_runs_total{outcome="completed"} %d`, 4*maxQueue)
			if !strings.Contains(scrape(t, k), counted) {
				t.Error("Prometheus is kept waiting")
			}
			k.Stop()
		})
	}
}

// The failures of an unreachable collector are logged once a minute, with the number of suppressed ones (H-OBS-LF-05).
func TestComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 3 {
			c.Handle(context.DeadlineExceeded)
		}
		time.Sleep(complainEvery)
		c.Handle(context.DeadlineExceeded)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "more=2") {
			t.Errorf("%q", lines)
		}
	})
}

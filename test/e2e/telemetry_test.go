package e2e_test

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/telemetry"
	"kaged.dev/pkg/testkit/collector"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// metricsURL matches the address of a process's metrics in its log.
var metricsURL = regexp.MustCompile(`metrics are offered.* url=(http://\S+)`)

// metrics returns the metrics of a process as Prometheus reads them.
func metrics(t *testing.T, p *kagedtest.Process) string {
	t.Helper()
	found := metricsURL.FindStringSubmatch(p.Stderr.String())
	if found == nil {
		t.Fatalf("the log names no metrics: %s", p.Stderr.Tail(20))
	}
	resp, err := http.Get(found[1])
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

// A run of services in separate processes is one trace, from session-manager to the services of the workspace, and each
// process offers its own metrics. H-OBS-LF-01.
func TestOneTraceAcrossServices(t *testing.T) {
	t.Parallel()
	llm, otlp := fakellm.Start(t), collector.Start(t)
	llm.Script(fakellm.Steps(repair()...))
	c := startAlone(t, llm, "KAGED_METRICS_LISTEN=127.0.0.1:0", "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp.URL,
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	s := kagedtest.Open(t, c.SignIn(t), c.Project(t))
	if outcome := s.Run(t, "fix the failing test"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	offered := ""
	for _, name := range serviceNames {
		page := metrics(t, c.processes[name])
		for _, m := range telemetry.All() {
			if m.Service != name && strings.Contains(page, "\n"+m.Name) {
				t.Errorf("%s offers %s, which is %s's", name, m.Name, m.Service)
			}
		}
		offered += page
	}
	unseen := []string{telemetry.RunFailures.Name, telemetry.Delegations.Name} // no run failed, no child was called
	for _, m := range telemetry.All() {
		if !strings.Contains(offered, "\n"+m.Name) && !slices.Contains(unseen, m.Name) {
			t.Errorf("no process offers %s", m.Name)
		}
	}
	for _, want := range []string{
		`kaged_runs_total{outcome="completed"} 1`, "kaged_sockets 1", "kaged_leases 1", "kaged_queue 0",
	} {
		if !strings.Contains(offered, "\n"+want+"\n") {
			t.Errorf("no process offers %s", want)
		}
	}
	for name, p := range c.processes {
		p.Signal(syscall.SIGTERM)
		if _, code := p.Rest(t); code != 0 {
			t.Errorf("%s ended with %d: %s", name, code, p.Stderr.Tail(5))
		}
	}
	checkTrace(t, otlp)
	if !slices.Contains(otlp.Metrics(), telemetry.Steps.Name) || !slices.Contains(otlp.Metrics(), telemetry.Runs.Name) {
		t.Errorf("over OTLP came %v", otlp.Metrics())
	}
}

// checkTrace checks the trace of the run.
func checkTrace(t *testing.T, otlp *collector.Server) {
	t.Helper()
	spans := otlp.Spans()
	at := slices.IndexFunc(spans, func(s collector.Span) bool { return s.GetName() == "run" })
	if at < 0 {
		t.Fatalf("no run among %d spans", len(spans))
	}
	root, byID := spans[at], map[string]collector.Span{}
	services, tools, calls := map[string]bool{}, 0, 0
	for _, s := range spans {
		if string(s.GetTraceId()) == string(root.GetTraceId()) {
			byID[string(s.GetSpanId())] = s
			services[s.Service] = true
		} else if s.Scope == telemetry.AgentScope {
			t.Errorf("%s is in another trace", s.GetName())
		}
	}
	for _, s := range byID {
		up := s
		for len(up.GetParentSpanId()) > 0 {
			parent, ok := byID[string(up.GetParentSpanId())]
			if !ok {
				t.Errorf("%s has no parent", up.GetName())
				break
			}
			up = parent
		}
		if up.GetName() != "run" && len(up.GetParentSpanId()) == 0 {
			t.Errorf("%s hangs below %s", s.GetName(), up.GetName())
		}
		switch {
		case strings.HasPrefix(s.GetName(), "execute_tool "):
			tools++
		case strings.HasPrefix(s.GetName(), "chat "):
			calls++
		}
	}
	for _, name := range []string{
		"kaged-session-manager", "kaged-harness", "kaged-tool-runner", "kaged-sandbox-supervisor",
	} {
		if !services[name] {
			t.Errorf("%s is not in the trace of the run, but %v", name, services)
		}
	}
	if calls != 4 || tools != 6 {
		t.Errorf("the trace has %d requests and %d tools, want 4 and 6", calls, tools)
	}
}

// A collector and a Langfuse that accept connections and never answer delay neither a run nor the end of the daemon
// (H-OBS-LF-05, H-FAIL-LF-01, H-TEST-OBS-01).
func TestTelemetryIntoABlackHole(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(repair()...))
	hole := "http://" + collector.BlackHole(t)
	w := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+"\n[telemetry]\nmetrics_listen = \"127.0.0.1:0\"\n"+
		"[langfuse]\nenabled = true\nbase_url = \""+hole+"\"\n")
	d := w.Up(t, append(databaseEnv(t), "OTEL_EXPORTER_OTLP_ENDPOINT="+hole, "KAGED_LANGFUSE_PUBLIC_KEY=pk",
		"KAGED_LANGFUSE_SECRET_KEY=sk"))
	s := kagedtest.Open(t, w.SignIn(t), w.Project(t))
	if outcome := s.Run(t, "fix the failing test"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	s.Contiguous(t)
	if !strings.Contains(metrics(t, d.Process), `kaged_runs_total{outcome="completed"} 1`) {
		t.Error("the run is not counted")
	}
	d.Signal(syscall.SIGTERM)
	if _, code := d.Rest(t); code != 0 {
		t.Errorf("the daemon ended with %d: %s", code, d.Stderr.Tail(5))
	}
}

// Without keys Langfuse gets no trace, which is no error (H-OBS-LF-03).
func TestLangfuseWithoutKeys(t *testing.T) {
	t.Parallel()
	otlp := collector.Start(t)
	w := kagedtest.NewWorld(t, "[langfuse]\nenabled = true\nbase_url = \""+otlp.URL+"\"\npublic_key_env = \"ABSENT\"\n")
	d := w.Up(t, append(databaseEnv(t), "KAGED_LANGFUSE_SECRET_KEY=sk"))
	d.Signal(syscall.SIGTERM)
	_, code := d.Rest(t)
	if code != 0 || !strings.Contains(d.Stderr.String(), "Langfuse gets no traces") || len(otlp.Requests()) > 0 {
		t.Errorf("the daemon ended with %d: %s", code, d.Stderr)
	}
}

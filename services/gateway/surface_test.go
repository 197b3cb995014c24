package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// into parses an answer of status 200 into m.
func (a answer) into(t *testing.T, m proto.Message) {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := wirejson.Unmarshal([]byte(a.body), m); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// Every answer has a request id of its own and the daemon's version. It has the warnings in exactly the modes that
// cause them (A-HDR-OUT-01..03, A-AUTH-INSEC-02, A-TEST-08, A-ME-04).
func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		setup setup
		want  string
	}{
		"neither": {setup{}, ""}, "insecure": {setup{insecure: true}, "insecure-mode"},
		"no sandbox": {setup{noSandbox: true}, "no-sandbox"},
		"both":       {setup{insecure: true, noSandbox: true}, "insecure-mode, no-sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, x.setup)
			d.manager.replies(nil, fault.New(fault.Internal, "broken"))
			var ids []string
			for _, path := range []string{
				"/healthz", "/readyz", "/", "/static/page.css", "/api/versions", "/api/v1/me", "/api/v1/zzz",
				"/api/v1/launch?token=x",
				"/api/v1/projects", "/api/v1/sessions/01S/socket", "/nothing",
			} {
				for _, method := range []string{"GET", "POST"} {
					got := d.client().do(method, path, "")
					id := got.header.Get("X-Kaged-Request-Id")
					if !ident.Valid(id) || slices.Contains(ids, id) {
						t.Errorf("%s %s: request id %q", method, path, id)
					}
					ids = append(ids, id)
					if v := got.header.Get("X-Kaged-Daemon-Version"); v != "0.0.0-test" {
						t.Errorf("%s %s: version %q", method, path, v)
					}
					if w := strings.Join(got.header.Values("X-Kaged-Warning"), ", "); w != x.want {
						t.Errorf("%s %s: warning %q, want %q", method, path, w, x.want)
					}
				}
			}
		})
	}
}

// The console is served at the path of each of its views, without sign-in and without data. Its policy allows its
// own files only. The files have entity tags, and are sent in gzip to clients that accept it.
func TestConsole(t *testing.T) {
	t.Parallel()
	d := start(t, setup{nats: bustest.Server(t)}).ready()
	nonces := map[string]bool{}
	for _, path := range []string{
		"/", "/sessions/01K0000000000000000000000A", "/projects",
		"/projects/music-site", "/processes", "/audit", "/settings",
	} {
		page := d.client().get(path)
		if page.status != 200 || page.header.Get("Cache-Control") != "no-store" || !strings.Contains(page.body,
			`name="kaged-sign-in" content="loopback"`) {
			t.Errorf("%s: %d %v %s", path, page.status, page.header, page.body)
		}
		policy := page.header.Get("Content-Security-Policy")
		for _, want := range []string{
			"default-src 'none'", "script-src 'self';",
			"require-trusted-types-for 'script'", "frame-ancestors 'none'",
		} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q without %q", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		_, nonce, _ := strings.Cut(policy, "'nonce-")
		nonce, _, _ = strings.Cut(nonce, "'")
		if nonces[nonce] || len(nonce) < 22 || !strings.Contains(page.body, nonce) {
			t.Errorf("%s: nonce %q", path, nonce)
		}
		nonces[nonce] = true
	}
	for path, kind := range map[string]string{
		"/static/console.js": "text/javascript; charset=utf-8", "/static/style.css": "text/css; charset=utf-8",
		"/static/manifest.json": "application/manifest+json",
		"/static/icon.svg":      "image/svg+xml",
	} {
		got := d.client().get(path)
		if got.status != 200 || got.header.Get("Content-Type") != kind ||
			got.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
		if again := d.client().with("If-None-Match", got.header.Get("ETag")).get(path); again.status != 304 ||
			again.body != "" {
			t.Errorf("%s again: %d", path, again.status)
		}
	}
	plain := d.client().with("Accept-Encoding", "identity").get("/static/console.js")
	packed := d.client().with("Accept-Encoding", "gzip").get("/static/console.js")
	if packed.header.Get("Content-Encoding") != "gzip" || len(packed.body)*2 > len(plain.body) ||
		plain.header.Get("Content-Encoding") != "" {
		t.Errorf("gzip: %d bytes %v, plain: %d bytes %v", len(packed.body), packed.header, len(plain.body),
			plain.header)
	}
	d.client().get("/static/index.html").refused(t, "a file that is no asset", 404, "not_found")
	if build := d.client().get("/healthz").header.Get("X-Kaged-Console"); len(build) != 12 {
		t.Errorf("build %q", build)
	}
}

// The routes without sign-in answer as the contract says, and never with HTML under /api (A-URL-TOP-01,
// A-SVC-HEALTH-01, A-SVC-VERS-01, A-WIRE-VERS-02, A-WIRE-CTYPE-03, A-UI-01, A-UI-02).
func TestOpenRoutes(t *testing.T) {
	t.Parallel()
	d := start(t, setup{insecure: true, nats: bustest.Server(t)}).ready()
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`,
		"/api/versions": `{"versions":["v1"],"current":"v1","daemon_version":"0.0.0-test"}`,
	} {
		got := d.client().get(path)
		if got.status != 200 || got.body != want || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	c := d.client()
	page := c.get("/")
	if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		c.cookie("kaged_csrf") != "" {
		t.Errorf("the page: %d, %s", page.status, page.header.Get("Content-Type"))
	}
	for _, want := range []string{
		"<title>kaged</title>", "/static/console.js", `name="kaged-sign-in" content="insecure"`,
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	if css := c.get("/static/page.css"); css.status != 200 ||
		!strings.HasPrefix(css.header.Get("Content-Type"), "text/css") {
		t.Errorf("the style: %d", css.status)
	}
	if api := c.get("/api/v1/openapi.json"); api.status != 200 || !json.Valid([]byte(api.body)) ||
		!strings.Contains(api.body, "/api/v1/sessions/{session_id}/messages") {
		t.Errorf("the description: %d", api.status)
	}
}

// Every caller can read the JSON Schema of the project file. An unknown version is not found (A-DSLV-04).
func TestSchemaOfTheProjectFile(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	for _, path := range []string{"/api/v1/dsl/schema", "/api/v1/dsl/schema?version=1"} {
		got := d.client().get(path)
		var body struct {
			Version int             `json:"version"`
			Schema  json.RawMessage `json:"schema"`
		}
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != 200 || body.Version != 1 {
			t.Fatalf("%s: %d %s %v", path, got.status, got.body, err)
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(body.Schema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("project.json", schema); err != nil {
			t.Fatal(err)
		}
		compiled, err := c.Compile("project.json")
		if err != nil {
			t.Fatalf("%s is no JSON Schema: %v", path, err)
		}
		if compiled.Validate(map[string]any{"version": 2}) == nil {
			t.Error("the schema accepts anything")
		}
		top := schema.(map[string]any)
		if top["$schema"] != "https://json-schema.org/draft/2020-12/schema" || top["$id"] == nil {
			t.Errorf("$schema %v, $id %v", top["$schema"], top["$id"])
		}
		if h := got.header; h.Get("Content-Type") != "application/json; charset=utf-8" ||
			h.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", h)
		}
	}
	d.client().get("/api/v1/dsl/schema?version=2").refused(t, "a version to come", 404, "not_found")
	d.client().get("/api/v1/dsl/schema?version=one").refused(t, "no number", 400, "validation_failed")
	d.client().do("POST", "/api/v1/dsl/schema", "").refused(t, "a method it does not take", 405, "method_not_allowed")
}

// /readyz reports whether the dependencies of requests are available, without an error object. /healthz does not
// depend on them (A-SVC-READY-01, -02, A-SVC-HEALTH-01).
func TestReadiness(t *testing.T) {
	t.Parallel()
	starting := func(d *daemon, what, why string) {
		t.Helper()
		if got := d.client().get("/readyz"); got.status != 503 ||
			!strings.HasPrefix(got.body, `{"status":"starting","reason":"`+why) {
			t.Errorf("%s: got %d %s, want 503 and why", what, got.status, got.body)
		}
		if got := d.client().get("/healthz"); got.status != 200 {
			t.Errorf("%s: /healthz %d", what, got.status)
		}
	}
	d := start(t, setup{nats: bustest.Server(t)}).ready()
	d.manager.with(func() { d.manager.notReady = fault.New(fault.Unavailable, "The disk is full.") })
	starting(d, "session-manager is not ready", "The disk is full.")
	d.manager.with(func() { d.manager.notReady = nil })
	d.ready()
	d.nats.Stop()
	starting(d, "the bus is away", "")
	d.nats.Start()
	d.ready()
	starting(start(t, setup{config: map[string]any{"auth": "sidecar"}}), "no nonce",
		"The gateway waits for a sidecar_nonce.")
	start(t, setup{nats: d.nats, config: map[string]any{"auth": "sidecar", "sidecar_nonce": "n"}}).ready()
}

// A gateway above its request limit refuses further requests (A-FAIL-01). A stopping gateway refuses new requests
// and finishes those in progress (A-ERR-CODE-12, A-FAIL-07).
func TestFullAndStopping(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"requests": int64(1)}})
	c, other := d.operator(), d.operator()
	entered, leave := make(chan struct{}), make(chan struct{})
	d.manager.with(func() {
		d.manager.answer = func(context.Context, proto.Message) (proto.Message, error) {
			close(entered)
			<-leave
			return &apiv1.ListProjectsResponse{}, nil
		}
	})
	slow := make(chan answer, 1)
	go func() { slow <- c.get("/api/v1/projects") }()
	<-entered
	got := other.get("/api/v1/me")
	got.refused(t, "one too many", 503, "unavailable")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if got := other.get("/healthz"); got.status != 200 {
		t.Errorf("/healthz: %d", got.status)
	}
	d.service().Drain(t.Context())
	other.get("/api/v1/me").refused(t, "while it stops", 503, "unavailable")
	if got := other.get("/readyz"); got.status != 503 {
		t.Errorf("/readyz while it stops: %d", got.status)
	}
	stopped := make(chan struct{})
	go func() { testkit.Stop(t, d.Running); close(stopped) }()
	close(leave)
	if got := <-slow; got.status != 200 {
		t.Errorf("the request in progress: %d %s", got.status, got.body)
	}
	<-stopped
}

// A request is answered with deadline_exceeded at its timeout.
func TestSlowAndGone(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"request_timeout": "1s"}})
	c := d.operator()
	d.manager.with(func() {
		d.manager.answer = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	c.get("/api/v1/projects").refused(t, "slow", 504, "deadline_exceeded")
}

// A panic is answered with internal. The log has the stack and the request id (A-ERR-CODE-10).
func TestPanic(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.with(func() {
		d.manager.answer = func(context.Context, proto.Message) (proto.Message, error) { panic("boom") }
	})
	r := c.get("/api/v1/projects").refused(t, "panic", 500, "internal")
	if text := d.log.String(); !strings.Contains(text, "boom") ||
		!strings.Contains(text, fmt.Sprintf("request_id=%s", r.RequestID)) {
		t.Error("the log has no line with the panic and the request id")
	}
}

// A request with headers above the limit is refused before the headers are parsed.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"header_limit": int64(4096)}})
	c := d.client()
	c.header = http.Header{"X-Large": {strings.Repeat("x", 1<<20)}}
	r, err := http.NewRequestWithContext(t.Context(), "GET", d.base+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header
	resp, err := c.http.Do(r)
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
}

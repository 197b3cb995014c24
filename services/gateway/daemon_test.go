package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/services/gateway"
	"kaged.dev/services/gateway/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// daemon is a kaged process with a gateway, a fake session-manager and a bus.
type daemon struct {
	*testkit.Running
	t       testing.TB
	manager *manager
	box     *box
	nats    *bustest.Private
	log     *logText
	base    string
}

// setup configures a daemon.
type setup struct {
	insecure, noSandbox bool
	rateLimitsOff       bool
	uiURL               string
	config              map[string]any
	system              config.System
	manager             *manager
	nats                *bustest.Private // may be nil; with a bus the test must wait until the daemon is ready
}

// start starts a daemon that stops with the test.
func start(t testing.TB, s setup) *daemon {
	t.Helper()
	d := &daemon{t: t, manager: s.manager, box: newBox(), nats: s.nats, log: &logText{}}
	if d.manager == nil {
		d.manager = newManager()
	}
	opts := testkit.Options(t)
	opts.Listen, opts.UIURL, opts.Insecure, opts.NoSandbox = "127.0.0.1:0", s.uiURL, s.insecure, s.noSandbox
	opts.RateLimitsOff = s.rateLimitsOff
	if opts.NATS.URL = "nats://127.0.0.1:1"; d.nats != nil {
		opts.NATS = host.NATS{InProcess: d.nats}
		d.nats.Frames(t, bus.FramesConfig{}) // with the configuration of session-manager
	}
	opts.File = &config.File{Services: map[string]map[string]any{"gateway": s.config}, System: s.system}
	opts.Log = slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h, err := host.New(opts, gateway.Module, d.manager.module(), d.manager.issues(), d.box.module())
	if err != nil {
		t.Fatal(err)
	}
	d.Running = testkit.Start(t, h)
	t.Cleanup(func() { testkit.Stop(t, d.Running) })
	if d.base, err = d.service().BaseURL(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *daemon) service() *gateway.Service { return d.Service("gateway").(*gateway.Service) }

// ready waits until the gateway can serve requests. It polls /readyz, because readiness is not announced.
func (d *daemon) ready() *daemon {
	d.t.Helper()
	for {
		if r := d.client().get("/readyz"); r.status == http.StatusOK {
			return d
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-d.t.Context().Done():
			d.t.Fatal("the gateway does not become ready")
		}
	}
}

// logText is a log that is safe to read while it is written.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// client is a browser, or a program that behaves like one.
type client struct {
	d       *daemon
	http    *http.Client
	header  http.Header
	host    string
	noToken bool // sends requests without the CSRF token
}

// client returns a client that is not signed in.
func (d *daemon) client() *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	c := &client{d: d, header: http.Header{}, http: &http.Client{
		Jar: jar, Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
	d.t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// operator returns a client that has signed in with a launch URL.
func (d *daemon) operator() *client {
	d.t.Helper()
	c := d.client()
	launch, err := d.service().LaunchURL(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	if r := c.get(strings.TrimPrefix(launch, d.base)); r.status != http.StatusFound {
		d.t.Fatalf("signing in: %d %s", r.status, r.body)
	}
	return c
}

// cookie returns a cookie of the client, or "".
func (c *client) cookie(name string) string {
	u, err := url.Parse(c.d.base)
	if err != nil {
		c.d.t.Fatal(err)
	}
	for _, k := range c.http.Jar.Cookies(u) {
		if k.Name == name {
			return k.Value
		}
	}
	return ""
}

// answer is an HTTP answer with its whole body.
type answer struct {
	status int
	header http.Header
	body   string
}

// with adds a header to the client's requests.
func (c *client) with(name, value string) *client {
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return c
}

func (c *client) get(path string) answer { return c.do(http.MethodGet, path, "") }

// do sends a request, with a body of JSON if body is not empty.
func (c *client) do(method, path, body string) answer {
	c.d.t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(c.d.t.Context()), method, c.d.base+path,
		strings.NewReader(body))
	if err != nil {
		c.d.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	if token := c.cookie("kaged_csrf"); token != "" && method != http.MethodGet && !c.noToken {
		r.Header.Set("X-Kaged-CSRF", token)
	}
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.host != "" {
		r.Host = c.host
	}
	resp, err := c.http.Do(r)
	if err != nil {
		c.d.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.d.t.Fatal(err)
	}
	got := answer{resp.StatusCode, resp.Header, string(data)}
	if err := apitest.Check(r, got.status, got.header, data); err != nil {
		c.d.t.Error(err)
	}
	return got
}

// refusal is the error object of an answer.
type refusal struct {
	Code      string         `json:"code"`
	Message   string         `json:"message"`
	Details   map[string]any `json:"details"`
	RequestID string         `json:"request_id"`
}

// refusal returns the error object. It fails the test if the answer does not have the shape of a refusal
// (A-ERR-SHAPE-01, -03).
func (a answer) refusal(t *testing.T) refusal {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(a.body))
	dec.DisallowUnknownFields()
	var body struct {
		Error refusal `json:"error"`
	}
	if err := dec.Decode(&body); err != nil {
		t.Fatalf("%d %q is no refusal: %v", a.status, a.body, err)
	}
	if body.Error.RequestID == "" || body.Error.RequestID != a.header.Get("X-Kaged-Request-Id") ||
		body.Error.Message == "" {
		t.Errorf("refusal %+v of request %s", body.Error, a.header.Get("X-Kaged-Request-Id"))
	}
	if got := a.header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Errorf("a refusal's content type is %q", got)
	}
	return body.Error
}

// refused fails the test unless the answer has this status and code.
func (a answer) refused(t *testing.T, what string, status int, code string) refusal {
	t.Helper()
	r := a.refusal(t)
	if a.status != status || r.Code != code {
		t.Errorf("%s: %d %s, want %d %s (%s)", what, a.status, r.Code, status, code, r.Message)
	}
	return r
}

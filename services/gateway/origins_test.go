package gateway_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A request under a foreign host name, as in a DNS rebinding attack, gets no data. Pages of other origins cannot
// call the gateway.
func TestForeignHostsAndOrigins(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	for _, e := range append(protected(), exchange{route: "page", method: "GET", path: "/"}, exchange{
		route: "versions", method: "GET", path: "/api/versions",
	},
		exchange{route: "unknown", method: "GET", path: "/api/v1/zzz"}) {
		c := d.client()
		c.host = "evil.example:7420"
		if r := c.do(e.method, e.path, e.body).refused(t, e.route, 403,
			"forbidden"); r.Details["reason"] != "host_not_allowed" {
			t.Errorf("%s: details %v", e.route, r.Details)
		}
		c = d.client()
		c.header = http.Header{"Origin": {"http://evil.example"}}
		if r := c.do(e.method, e.path, e.body).refused(t, e.route, 403,
			"forbidden"); r.Details["reason"] != "origin_not_allowed" {
			t.Errorf("%s: details %v", e.route, r.Details)
		}
	}
	c := d.operator()
	// A browser asks before a request to another origin; it finds no permission (A-OPEN-04, without opt-in).
	c.header = http.Header{"Origin": {"http://evil.example"}, "Access-Control-Request-Method": {"POST"}}
	asked := c.do(http.MethodOptions, "/api/v1/projects/load", "")
	if asked.status < 400 {
		t.Errorf("a question before a request from another origin: %d", asked.status)
	}
	c.header = http.Header{"Origin": {d.base}}
	own := c.get("/api/v1/me")
	if own.status != 200 {
		t.Errorf("the own origin: %d", own.status)
	}
	for _, got := range []answer{asked, own} {
		for name := range got.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("the answer has %s", name)
			}
		}
	}
	c.host = "evil.example"
	if got := c.get("/healthz"); got.status != 200 {
		t.Errorf("a probe by another name: %d", got.status)
	}
}

// A request that repeats a header with the operator's identity or proof is refused on every protected route, in
// every mode that reads the header and in any order of the values.
func TestRepeatedHeaders(t *testing.T) {
	t.Parallel()
	sidecar := setup{config: map[string]any{"auth": "sidecar", "sidecar_nonce": "nonce"}}
	sent := http.Header{
		"X-Kaged-User-Id": {"ann"}, "X-Kaged-User-Email": {"ann@x"}, "X-Kaged-User-Groups": {"a"},
		"X-Kaged-Auth-Nonce": {"nonce"}, "X-Kaged-Csrf": {"t"},
	}
	sent.Set("Content-Type", "application/json")
	sent.Set("If-Match", "1")
	named := slices.Sorted(maps.Keys(sent))
	sent.Set("Authorization", "Bearer x")
	for name, c := range map[string]struct {
		setup setup
		read  []string
	}{
		"loopback": {setup{}, []string{"X-Kaged-Csrf", "Content-Type", "If-Match", "Authorization"}},
		"sidecar":  {sidecar, slices.Sorted(maps.Keys(sent))},
		"insecure": {setup{insecure: true}, named},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, c.setup)
			for _, header := range c.read {
				for _, values := range [][]string{
					{sent.Get(header), "eve"}, {"eve", sent.Get(header)}, {sent.Get(header), sent.Get(header)}, {sent.Get(header), ""},
				} {
					for _, e := range protected() {
						who := d.client()
						who.header = sent.Clone()
						who.header[header] = values
						r := who.do(e.method, e.path, e.body).refused(t, e.route+" with two "+header, 400, "bad_request")
						if r.Details["reason"] != "repeated_header" ||
							r.Details["header"] != header && !strings.EqualFold(r.Details["header"].(string), header) {
							t.Errorf("%s: details %v", header, r.Details)
						}
					}
				}
			}
		})
	}
	d := start(t, setup{})
	c := d.operator()
	c.header = http.Header{"X-Kaged-User-Id": {"ann", "eve"}}
	if got := c.get("/api/v1/me"); got.status != 200 {
		t.Errorf("two identities in loopback mode, which reads none: got %d, want 200", got.status)
	}
}

// With a host name of its own, NAME.localhost in --ui-url, kaged does not share cookies with other ports of
// 127.0.0.1: a browser signs in under that name, and other names of localhost are refused.
func TestNameOfLocalhost(t *testing.T) {
	t.Parallel()
	d := start(t, setup{uiURL: "http://work.localhost:7420"})
	launch, err := d.service().LaunchURL(t.Context())
	path, ok := strings.CutPrefix(launch, "http://work.localhost:7420")
	if err != nil || !ok {
		t.Fatalf("launch URL %q, %v", launch, err)
	}
	c := d.client()
	c.host = "work.localhost:7420"
	got := c.get(path)
	if got.status != http.StatusFound {
		t.Fatalf("signing in: %d %s", got.status, got.body)
	}
	for _, line := range got.header.Values("Set-Cookie") {
		if strings.Contains(strings.ToLower(line), "domain") {
			t.Errorf("the cookie %q is for more than its host", line)
		}
	}
	c.header = http.Header{"Origin": {"http://work.localhost:7420"}}
	if got := c.get("/api/v1/me"); got.status != 200 {
		t.Errorf("as itself: %d %s", got.status, got.body)
	}
	c.header = http.Header{"Origin": {"http://play.localhost:7420"}}
	c.get("/api/v1/me").refused(t, "a page of another name", 403, "forbidden")
	c.header, c.host = http.Header{}, "play.localhost:7420"
	c.get("/api/v1/me").refused(t, "under another name", 403, "forbidden")
}

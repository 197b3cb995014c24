package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

// A launch URL signs in once, either a browser or a client that accepts JSON (A-LAUNCH-01..06, A-AUTH-LOOP-02,
// A-CSRF-02).
func TestLaunch(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	launch, err := d.service().LaunchURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path, ok := strings.CutPrefix(launch, d.base)
	if !ok || !strings.HasPrefix(path, "/api/v1/launch?token=") {
		t.Fatalf("launch URL %q", launch)
	}
	c := d.client()
	c.do("HEAD", path, "")
	got := c.get(path)
	if got.status != 302 || got.header.Get("Location") != "/" || len(got.header.Values("Set-Cookie")) != 2 {
		t.Fatalf("%d to %q with %v", got.status, got.header.Get("Location"), got.header.Values("Set-Cookie"))
	}
	for _, line := range got.header.Values("Set-Cookie") {
		session := strings.HasPrefix(line, "kaged_session=")
		if strings.Contains(line, "HttpOnly") != session || !strings.Contains(line, "SameSite=Lax") ||
			strings.Contains(line, "Secure") || !strings.Contains(line, "Path=/") {
			t.Errorf("cookie %q", line)
		}
	}
	if got := c.get("/api/v1/me"); got.status != 200 {
		t.Errorf("after the launch: %d", got.status)
	}
	// A browser that opens the URL again gets a page with the command for a new one.
	browser := d.client()
	browser.header = http.Header{"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}}
	if got := browser.get(path); got.status != 401 || got.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.Contains(got.body, "<code>kaged auth launch</code>") || len(got.header.Values("Set-Cookie")) != 0 {
		t.Errorf("a used token in a browser: %d %s", got.status, got.body)
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html"} {
		c := d.client()
		c.header = http.Header{"Accept": {accept}}
		r := c.get(path).refused(t, "a used token", 401, "unauthenticated")
		if r.Details["reason"] != "invalid_launch_token" {
			t.Errorf("details %v", r.Details)
		}
		if p := d.manager.audited(t, r.RequestID).GetRecords()[0]; p.GetPayload().
			AsMap()["reason"] != "invalid_launch_token" {
			t.Errorf("audit %v", p)
		}
	}
	d.client().get("/api/v1/launch").refused(t, "no token", 401, "unauthenticated")
	if launch, err = d.service().LaunchURL(t.Context()); err != nil {
		t.Fatal(err)
	}
	api := d.client()
	api.header = http.Header{"Accept": {"application/json"}}
	var launched apiv1.Launched
	api.get(strings.TrimPrefix(launch, d.base)).into(t, &launched)
	if !launched.GetOk() || launched.GetCsrfToken() == "" || launched.GetCsrfToken() != api.cookie("kaged_csrf") {
		t.Errorf("launched %v with cookie %q", &launched, api.cookie("kaged_csrf"))
	}
}

// No launch token appears in the log at any level, whether it is unused, used, used twice, or sent to a wrong
// route.
func TestLaunchTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	control := gatewayv1.NewGatewayServiceClient(d.Dial("gateway"))
	issued, err := control.IssueLaunch(t.Context(), &gatewayv1.IssueLaunchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := control.RotateAuth(t.Context(), &gatewayv1.RotateAuthRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, launch := range []string{issued.GetUrl(), rotated.GetUrl()} {
		path := strings.TrimPrefix(launch, d.base)
		_, token, ok := strings.Cut(path, "token=")
		if !ok {
			t.Fatalf("launch URL %q", launch)
		}
		c := d.client()
		for _, request := range [][2]string{
			{"HEAD", path},
			{"POST", path},
			{"GET", path},
			{"GET", path},
			{"GET", "/?token=" + token},
			{"GET", "/api/v1/me?token=" + token},
		} {
			c.do(request[0], request[1], "")
		}
		if log := d.log.String(); strings.Contains(log, token) || strings.Contains(log, "token=") {
			t.Errorf("the log holds a launch token:\n%s", log)
		}
	}
	if !strings.Contains(d.log.String(), "path=/api/v1/launch") {
		t.Fatal("the log does not hold the requests, so that it proves nothing")
	}
}

// While the secret is unknown, signing in is unavailable and the launch token is not used up: the URL works later.
func TestLaunchKeepsItsToken(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	launch, err := d.service().LaunchURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(launch, d.base)
	d.manager.with(func() { d.manager.noSecret = fault.New(fault.Unavailable, "storage") })
	d.client().get(path).refused(t, "without the secret", 503, "unavailable")
	d.manager.with(func() { d.manager.noSecret = nil })
	if got := d.client().get(path); got.status != 302 {
		t.Errorf("later: %d %s", got.status, got.body)
	}
}

// /launch is the same route as /api/v1/launch. Both answer not_found in other modes (A-LAUNCH-01, -07).
func TestLaunchElsewhere(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	launch, err := d.service().LaunchURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := d.client().get(strings.TrimPrefix(launch, d.base+"/api/v1")); got.status != 302 {
		t.Errorf("/launch: %d", got.status)
	}
	for _, s := range []setup{{insecure: true}, {config: map[string]any{"auth": "sidecar", "sidecar_nonce": "n"}}} {
		d := start(t, s)
		d.client().get("/api/v1/launch?token=x").refused(t, "another mode", 404, "not_found")
		if url, err := d.service().LaunchURL(t.Context()); err != nil || url != d.base {
			t.Errorf("the URL to print is %q, %v", url, err)
		}
	}
}

// The launch URL begins with the UI URL (A-LAUNCH-02).
func TestLaunchURLBase(t *testing.T) {
	t.Parallel()
	d := start(t, setup{uiURL: "https://kaged.example/"})
	launch, err := d.service().LaunchURL(t.Context())
	if err != nil || !strings.HasPrefix(launch, "https://kaged.example/api/v1/launch?token=") {
		t.Errorf("%q, %v", launch, err)
	}
	c := d.client()
	c.host = "kaged.example"
	if got := c.get(strings.TrimPrefix(launch, "https://kaged.example")); got.status != 302 {
		t.Errorf("under the UI's host: %d %s", got.status, got.body)
	}
}

package gateway_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os/user"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// protected lists every route that needs an operator, with a path and a body.
func protected() []exchange {
	routes := contract()
	for _, path := range []string{"/api/v1/me", "/api/v1/openapi.json", "/api/v1/sessions/01S/socket"} {
		routes = append(routes, exchange{route: "GET " + path, method: "GET", path: path})
	}
	return routes
}

// Every protected route refuses callers that are unknown to the mode, in one form, and the audit alone learns why
// (A-TEST-02, A-ERR-CODE-03, A-AUTH-LOOP-01, -05, -06, A-AUTH-SIDE-01..03).
func TestAuthOfEveryRoute(t *testing.T) {
	t.Parallel()
	// Each refusal of each route is looked for in the audit, which counts those above audit_denials and drops them.
	sidecar := map[string]any{"auth": "sidecar", "sidecar_nonce": "nonce", "audit_denials": 10_000}
	for name, m := range map[string]struct {
		setup   setup
		refused map[string]http.Header // by reason
		let     http.Header
	}{
		"loopback": {setup{config: map[string]any{"audit_denials": 10_000}}, map[string]http.Header{
			"missing_cookie": {"X-Kaged-User-Id": {"eve"}, "X-Kaged-Auth-Nonce": {"nonce"}},
			"invalid_cookie": {"Cookie": {"kaged_session=forged"}},
		}, nil},
		"sidecar": {setup{config: sidecar}, map[string]http.Header{
			"missing_nonce": {"X-Kaged-User-Id": {"ann"}},
			"wrong_nonce":   {"X-Kaged-User-Id": {"ann"}, "X-Kaged-Auth-Nonce": {"wrong"}},
			"missing_user":  {"X-Kaged-Auth-Nonce": {"nonce"}},
			// A-AUTH-NOVAL-01, A-AUTH-SIDE-04
		}, http.Header{
			"X-Kaged-User-Id": {"ann"}, "X-Kaged-Auth-Nonce": {"nonce"}, "Authorization": {"Bearer bogus"},
			"X-Kaged-User-Groups": {"a"},
		}},
		"a system's without a nonce": {
			setup{system: config.System{Enabled: true}, config: map[string]any{"audit_denials": 10_000}},
			map[string]http.Header{
				"missing_nonce": {"X-Kaged-User-Id": {"ann"}},
				"wrong_nonce":   {"X-Kaged-User-Id": {"ann"}, "X-Kaged-Auth-Nonce": {"x"}},
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, m.setup)
			bodies := map[string]string{}
			for _, e := range protected() {
				for reason, header := range m.refused {
					c := d.client()
					c.header = header
					got := c.do(e.method, e.path, e.body)
					r := got.refused(t, e.route+", "+reason, 401, "unauthenticated")
					bodies[strings.ReplaceAll(got.body, r.RequestID, "")] = reason
					record := d.manager.audited(t, r.RequestID)
					if p := record.GetRecords()[0]; p.GetEventType() != "auth.denied" || p.GetPayload().AsMap()["reason"] != reason {
						t.Errorf("%s, %s: audit %v", e.route, reason, p)
					}
				}
				if m.let != nil {
					d.manager.replies(e.reply, nil)
					c := d.client()
					c.header = m.let
					if got := c.do(e.method, e.path, e.body); got.status == 401 {
						t.Errorf("%s: %d", e.route, got.status)
					}
				}
			}
			if len(bodies) != 1 {
				t.Errorf("refusals differ: %v", bodies)
			}
		})
	}
}

// In insecure mode no caller is refused for its identity, and every request is in the audit (A-AUTH-INSEC-01..03,
// A-ME-08).
func TestInsecure(t *testing.T) {
	t.Parallel()
	d := start(t, setup{insecure: true})
	c := d.client()
	var me apiv1.Me
	got := c.get("/api/v1/me")
	got.into(t, &me)
	if me.GetUserId() != "insecure-mode" || me.GetDaemon().GetAuthMode() != "insecure" {
		t.Errorf("me is %v", &me)
	}
	record := d.manager.audited(t, got.header.Get("X-Kaged-Request-Id"))
	if p := record.GetRecords()[0].GetPayload().AsMap(); record.GetUserId() != "insecure-mode" ||
		p["auth_mode"] != "insecure" || p["path"] != "/api/v1/me" {
		t.Errorf("audit %v", record)
	}
	for _, e := range contract() {
		d.manager.replies(e.reply, nil)
		got := c.do(e.method, e.path, e.body)
		if got.status != e.status {
			t.Errorf("%s: %d %s", e.route, got.status, got.body)
		}
		d.manager.audited(t, got.header.Get("X-Kaged-Request-Id"))
	}
	c.header = http.Header{"X-Kaged-User-Id": {"ann"}}
	c.get("/api/v1/me").into(t, &me)
	if me.GetUserId() != "ann" {
		t.Errorf("a named operator is %q", me.GetUserId())
	}
}

// Routes that may change state need the token, in every mode; routes that read do not (A-CSRF-01, -03, -07,
// A-TEST-09).
func TestCSRFOfEveryRoute(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{"loopback": {}, "insecure": {insecure: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, s)
			c := d.client()
			if !s.insecure {
				c = d.operator()
			}
			c.get("/api/v1/me")
			token := c.cookie("kaged_csrf")
			c.noToken = true
			for _, e := range contract() {
				d.manager.replies(e.reply, nil)
				if e.method == "GET" {
					if got := c.do(e.method, e.path, e.body); got.status != e.status {
						t.Errorf("%s: %d", e.route, got.status)
					}
					continue
				}
				for what, header := range map[string]string{"no header": "", "another": token + "x"} {
					c.header = http.Header{}
					if header != "" {
						c.header.Set("X-Kaged-Csrf", header)
					}
					r := c.do(e.method, e.path, e.body).refused(t, e.route+", "+what, 403, "forbidden")
					if r.Details["reason"] != "csrf_mismatch" {
						t.Errorf("%s, %s: details %v", e.route, what, r.Details)
					}
					d.manager.audited(t, r.RequestID)
				}
				c.header = http.Header{"X-Kaged-Csrf": {token}}
				if got := c.do(e.method, e.path, e.body); got.status != e.status {
					t.Errorf("%s with the token: %d %s", e.route, got.status, got.body)
				}
				c.header = nil
			}
			other := d.client()
			if !s.insecure {
				other.header = http.Header{"Cookie": {"kaged_session=" + c.cookie("kaged_session")}}
			} else {
				other.header = http.Header{}
			}
			other.header.Set("X-Kaged-Csrf", token)
			other.do("POST", "/api/v1/projects/load", `{}`).refused(t, "the header without the cookie", 403, "forbidden")
		})
	}
}

// A launch URL signs in once, in the browser's way or the API's (A-LAUNCH-01..06, A-AUTH-LOOP-02, A-CSRF-02).
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
	// A browser that opens it again is shown the command to type.
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

// A launch token is in no line of the log, at any level: neither one that is issued nor one that is spent, sent
// twice, or sent where it does not belong.
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

// A token is not spent on an answer that cannot be given: while the secret is not known, signing in is unavailable
// and the same URL works later.
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

// A request past its time is answered, even if its backend is not done.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	d := start(t, setup{insecure: true, config: map[string]any{"request_timeout": "50ms"}})
	d.manager.with(func() {
		d.manager.answer = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	d.client().get("/api/v1/projects").refused(t, "a call that takes too long", 504, "deadline_exceeded")
}

// The short form is the same route, and other modes lack it (A-LAUNCH-01, -07).
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

// The launch URL is under the address people see (A-LAUNCH-02).
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

// /api/v1/me returns the operator, the version and the mode, and hands out the one token (A-ME-01..07,
// A-AUTH-LOOP-03, A-CSRF-02, -04).
func TestMe(t *testing.T) {
	t.Parallel()
	d := start(t, setup{noSandbox: true})
	c := d.operator()
	got := c.get("/api/v1/me")
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"user_id":%[1]q,"email":%[2]q,"groups":[],"operator_name":%[1]q,`+
		`"daemon":{"version":"0.0.0-test","deployment_mode":"user","auth_mode":"loopback","sandbox_mode":"disabled",`+
		`"warnings":["no-sandbox"]},`+
		`"preferences":{"theme":"dark","timezone":"UTC","locale":"en-US"},"csrf_token":%[3]q}`, u.Username,
		u.Username+"@localhost", c.cookie("kaged_csrf"))
	if diff := cmp.Diff(want, got.body); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if again := c.get("/api/v1/me"); again.body != got.body || len(again.header.Values("Set-Cookie")) != 1 {
		t.Errorf("again: %s with %v", again.body, again.header.Values("Set-Cookie"))
	}
	d.manager.with(func() {
		d.manager.operator = &sessionmanagerv1.GetOperatorResponse{
			OperatorName: "Ann", Theme: "light", Timezone: "Europe/Budapest", Locale: "hu",
		}
	})
	var me apiv1.Me
	c.get("/api/v1/me").into(t, &me)
	if me.GetOperatorName() != "Ann" || me.GetPreferences().GetTheme() != "light" ||
		me.GetPreferences().GetTimezone() != "Europe/Budapest" {
		t.Errorf("me is %v", &me)
	}
}

// Behind a sidecar, /api/v1/me returns the sidecar's identity, and the deployment is a system's (A-AUTH-SIDE-01,
// A-ME-02, -03).
func TestMeBehindASidecar(t *testing.T) {
	t.Parallel()
	d := start(t, setup{
		system: config.System{Enabled: true}, config: map[string]any{"sidecar_nonce": "n", "csrf_same_site": "strict"},
	})
	c := d.client()
	c.header = http.Header{
		"X-Kaged-User-Id": {"ann"}, "X-Kaged-User-Email": {"a@x"}, "X-Kaged-User-Groups": {"dev,ops"},
		"X-Kaged-Auth-Nonce": {"n"},
	}
	var me apiv1.Me
	got := c.get("/api/v1/me")
	got.into(t, &me)
	if me.GetUserId() != "ann" || me.GetEmail() != "a@x" || len(me.GetGroups()) != 2 ||
		me.GetDaemon().GetDeploymentMode() != "system" || me.GetDaemon().GetAuthMode() != "sidecar" {
		t.Errorf("me is %v", &me)
	}
	if line := got.header.Get("Set-Cookie"); !strings.Contains(line, "SameSite=Strict") { // A-CSRF-06
		t.Errorf("cookie %q", line)
	}
}

// Rotating makes old cookies and tokens worthless at once, and the new launch URL works (A-AUTH-LOOP-04, A-CSRF-04).
func TestRotate(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	control := gatewayv1.NewGatewayServiceClient(d.Dial("gateway"))
	c := d.operator()
	resp, err := control.RotateAuth(t.Context(), &gatewayv1.RotateAuthRequest{})
	if err != nil {
		t.Fatal(err)
	}
	c.get("/api/v1/me").refused(t, "the old cookie", 401, "unauthenticated")
	old := c.cookie("kaged_csrf")
	if got := c.get(strings.TrimPrefix(resp.GetUrl(), d.base)); got.status != 302 {
		t.Fatalf("the new URL: %d %s", got.status, got.body)
	}
	if c.cookie("kaged_csrf") == old {
		t.Error("the CSRF token is still the same")
	}
	if got := c.get("/api/v1/me"); got.status != 200 {
		t.Errorf("the new cookie: %d", got.status)
	}
}

// A browser signs every other one out, and stays signed in itself; an API token may not (A-AUTH-LOOP-04).
func TestSignOutOthers(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c, other := d.operator(), d.operator()
	old := c.cookie("kaged_csrf")
	got := c.do("POST", "/api/v1/auth/rotate", "")
	if got.status != 200 || !strings.Contains(got.body, `"csrf_token":"`) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	other.get("/api/v1/me").refused(t, "the cookie of another browser", 401, "unauthenticated")
	if got := c.get("/api/v1/me"); got.status != 200 || c.cookie("kaged_csrf") == old {
		t.Errorf("the browser itself: %d", got.status)
	}
	bearer := d.bearing(c.userID(), apiv1.TokenScope_TOKEN_SCOPE_ADMIN)
	bearer.do("POST", "/api/v1/auth/rotate", "").refused(t, "a token", 403, "forbidden")
}

// A secret that changed elsewhere, as by a restart of session-manager, is noticed within its age.
func TestSecretChangesElsewhere(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"secret_max_age": "1ns"}})
	c := d.operator()
	d.manager.with(func() { d.manager.secret = []byte("another secret of some length") })
	c.get("/api/v1/me").refused(t, "the old cookie", 401, "unauthenticated")
	if got := d.operator().get("/api/v1/me"); got.status != 200 {
		t.Errorf("a new cookie: %d", got.status)
	}
}

// The command line's questions are answered, and launch URLs only in a mode that has them.
func TestControl(t *testing.T) {
	t.Parallel()
	d := start(t, setup{insecure: true, noSandbox: true})
	control := gatewayv1.NewGatewayServiceClient(d.Dial("gateway"))
	info, err := control.GetInfo(t.Context(), &gatewayv1.GetInfoRequest{})
	if err != nil || info.GetBaseUrl() != d.base || info.GetVersion() != "0.0.0-test" ||
		info.GetAuthMode() != "insecure" || len(info.GetWarnings()) != 2 {
		t.Errorf("info %v, %v", info, err)
	}
	if _, err := control.IssueLaunch(t.Context(), &gatewayv1.IssueLaunchRequest{}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("IssueLaunch: %v", err)
	}
	if _, err := control.RotateAuth(t.Context(), &gatewayv1.RotateAuthRequest{}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("RotateAuth: %v", err)
	}
	d = start(t, setup{uiURL: "http://kaged.example"})
	control = gatewayv1.NewGatewayServiceClient(d.Dial("gateway"))
	launch, err := control.IssueLaunch(t.Context(), &gatewayv1.IssueLaunchRequest{})
	if err != nil || !strings.HasPrefix(launch.GetUrl(), "http://kaged.example/api/v1/launch?token=") {
		t.Errorf("launch %v, %v", launch, err)
	}
	if info, err := control.GetInfo(t.Context(), &gatewayv1.GetInfoRequest{}); err != nil || info.GetBaseUrl() != d.base {
		t.Errorf("info %v, %v", info, err)
	}
}

// A page of another name that resolves to the gateway gets no data, and pages of other origins may not call it.
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
	c.header = http.Header{"Origin": {d.base}}
	if got := c.get("/api/v1/me"); got.status != 200 {
		t.Errorf("the own origin: %d", got.status)
	}
	c.host = "evil.example"
	if got := c.get("/healthz"); got.status != 200 {
		t.Errorf("a probe by another name: %d", got.status)
	}
}

// A knock in the night is recorded, many are counted.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.client()
	for range 300 {
		c.get("/api/v1/me")
	}
	deadline := time.After(10 * time.Second)
	for n := 0; n < 100; n++ {
		select {
		case <-d.manager.recorded:
		case <-deadline:
			t.Fatalf("%d records came", n)
		}
	}
	d.manager.with(func() {
		if len(d.manager.records) > 110 {
			t.Errorf("%d records of 300 refusals", len(d.manager.records))
		}
	})
}

// A header that names the operator, or proves that a request is theirs, counts once: a request with two of it is
// refused in every mode that reads it, in any order, on every protected route.
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

// A host name of its own, NAME.localhost by --ui-url, keeps the cookies from other ports of 127.0.0.1: the browser
// signs in and works under it, and another name of localhost is refused.
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

// A secret that is replaced, here or by another gateway, ends what was opened under the old one: sockets of sessions
// and of the system, and streams of events. What an API token has opened stays, and so does what a new sign-in opens.
func TestSignedOutSocketsEnd(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*daemon){
		"here": func(d *daemon) {
			if got := d.operator().do("POST", "/api/v1/auth/rotate", ""); got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
		},
		"by another gateway": func(d *daemon) {
			d.manager.with(func() { d.manager.secret = []byte("another secret of some length") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := onSession(t, setup{config: map[string]any{"secret_max_age": "1s"}})
			d.manager.replies(&apiv1.GetSessionResponse{Session: &apiv1.Session{Id: session}}, nil)
			c := d.operator()
			held, system, stream := c.socket(session), c.systemSocket(t), c.stream(t, "", "")
			held.hello(`{}`)
			program := d.bearing(c.userID(), apiv1.TokenScope_TOKEN_SCOPE_ADMIN).stream(t, "", "")
			replace(d)
			if f := held.want("control", "closing"); f.field("code") != "signed_out" {
				t.Errorf("the session's socket: %s", f.text)
			}
			for text := ""; !strings.Contains(text, `"signed_out"`); {
				if text = system.next(); strings.Contains(text, "closing") && !strings.Contains(text, "signed_out") {
					t.Errorf("the system socket: %s", text)
				}
			}
			if got := stream.next(); !strings.Contains(got, `"code":"signed_out"`) {
				t.Errorf("the stream: %s", got)
			}
			again := d.operator().socket(session)
			again.hello(`{}`)
			d.service().Drain(t.Context())
			if f := again.want("control", "closing"); f.field("code") != "server_shutdown" {
				t.Errorf("the new socket: %s", f.text)
			}
			if got := program.next(); !strings.Contains(got, `"code":"server_shutdown"`) {
				t.Errorf("the program's stream: %s", got)
			}
		})
	}
}

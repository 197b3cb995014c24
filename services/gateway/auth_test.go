package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"os/user"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// protected returns every route that needs an operator, with a path and a body.
func protected() []exchange {
	routes := contract()
	for _, path := range []string{"/api/v1/me", "/api/v1/openapi.json", "/api/v1/sessions/01S/socket"} {
		routes = append(routes, exchange{route: "GET " + path, method: "GET", path: path})
	}
	return routes
}

// Every protected route refuses unknown callers with the same answer in every mode. Only the audit log has the
// reason (A-TEST-02, A-ERR-CODE-03, A-AUTH-LOOP-01, -05, -06, A-AUTH-SIDE-01..03).
func TestAuthOfEveryRoute(t *testing.T) {
	t.Parallel()
	// The test looks up the audit record of each refusal, so the limit must be above their number.
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

// Insecure mode refuses no caller for its identity, and records every request in the audit log
// (A-AUTH-INSEC-01..03, A-ME-08).
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

// Routes that may change state need the CSRF token in every mode; routes that read do not (A-CSRF-01, -03, -07,
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

// A request is answered at its timeout, even if its backend has not answered.
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

// /api/v1/me returns the operator, the version, the mode and the CSRF token (A-ME-01..07, A-AUTH-LOOP-03,
// A-CSRF-02, -04, A-AUTH-MODE-01).
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

// Behind a sidecar, /api/v1/me returns the identity in the sidecar's headers and the deployment mode system
// (A-AUTH-SIDE-01, A-ME-02, -03).
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

// The command line's RPCs are answered. Those about launch URLs fail in modes without launch URLs.
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

// Refusals up to the limit are recorded, further ones are only counted.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"audit_window": "1h"}})
	c := d.client()
	for range 300 {
		c.get("/api/v1/me")
	}
	for range 100 {
		<-d.manager.recorded
	}
	d.manager.with(func() {
		if len(d.manager.records) > 110 {
			t.Errorf("%d records of 300 refusals", len(d.manager.records))
		}
	})
}

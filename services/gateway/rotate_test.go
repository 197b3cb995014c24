package gateway_test

import (
	"strings"
	"testing"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

// Rotating the secret revokes cookies and CSRF tokens at once, and the new launch URL works (A-AUTH-LOOP-04,
// A-CSRF-04).
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

// A browser signs all other browsers out and stays signed in. An API token cannot do so (A-AUTH-LOOP-04).
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

// A secret that was replaced elsewhere, as by a restart of session-manager, is detected within secret_max_age.
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

// Replacing the secret, here or at another gateway, closes the sockets and streams that were opened with the old
// cookies. Those of an API token and of a new sign-in stay open.
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

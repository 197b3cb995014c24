package access_test

import (
	"context"
	"errors"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/internal/core/access"
)

// secrets has a current secret, and changes to next at the first call of Renewed.
type secrets struct{ current, next []byte }

func (s *secrets) Current(context.Context) ([]byte, error) {
	if s.current == nil {
		return nil, fault.New(fault.Unavailable, "not known yet")
	}
	return s.current, nil
}

func (s *secrets) Renewed(ctx context.Context) ([]byte, error) {
	if s.next != nil {
		s.current = s.next
	}
	return s.Current(ctx)
}

func (s *secrets) Replaced(func()) (stop func()) { return func() {} }

// Each mode accepts the callers of its contract with one shape of identity. The reason of a refusal goes to the
// audit log only (A-AUTH-MODE-02, A-AUTH-SIDE-01..04, A-AUTH-LOOP-01, -03, -06, A-AUTH-INSEC-01).
func TestGate(t *testing.T) {
	t.Parallel()
	secret := []byte("secret")
	cookie := access.SessionToken(secret)
	for name, c := range map[string]struct {
		gate   access.Gate
		give   access.Credentials
		user   string
		reason access.Reason
	}{
		"the cookie": {access.Gate{Mode: access.Loopback}, access.Credentials{Session: cookie}, "ann", ""},
		"no cookie":  {access.Gate{Mode: access.Loopback}, access.Credentials{}, "", access.MissingCookie},
		"another cookie": {
			access.Gate{Mode: access.Loopback}, access.Credentials{Session: cookie + "x"}, "", access.InvalidCookie,
		},
		"the sidecar's headers in loopback mode": {
			access.Gate{Mode: access.Loopback}, access.Credentials{UserID: "eve", Nonce: "n"}, "", access.MissingCookie,
		},
		"the sidecar": {
			access.Gate{Mode: access.Sidecar, Nonce: "n"}, access.Credentials{UserID: "bob", Nonce: "n"}, "bob", "",
		},
		"no nonce": {
			access.Gate{Mode: access.Sidecar, Nonce: "n"}, access.Credentials{UserID: "bob"}, "", access.MissingNonce,
		},
		"a wrong nonce": {
			access.Gate{Mode: access.Sidecar, Nonce: "n"}, access.Credentials{UserID: "bob", Nonce: "m"}, "", access.WrongNonce,
		},
		"a nonce in sidecar mode without a configured nonce": {
			access.Gate{Mode: access.Sidecar}, access.Credentials{UserID: "bob", Nonce: "m"}, "", access.WrongNonce,
		},
		"no user": {
			access.Gate{Mode: access.Sidecar, Nonce: "n"}, access.Credentials{Nonce: "n"}, "", access.MissingUser,
		},
		"a user with a control character": {
			access.Gate{Mode: access.Sidecar, Nonce: "n"},
			access.Credentials{UserID: "b\x01", Nonce: "n"},
			"",
			access.InvalidUser,
		},
		"the cookie in sidecar mode": {
			access.Gate{Mode: access.Sidecar, Nonce: "n"}, access.Credentials{Session: cookie}, "", access.MissingNonce,
		},
		"no name in insecure mode": {access.Gate{Mode: access.Insecure}, access.Credentials{}, access.InsecureUser, ""},
		"a name in insecure mode":  {access.Gate{Mode: access.Insecure}, access.Credentials{UserID: "bob"}, "bob", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := c.gate
			gate.Operator, gate.Secrets = "ann", &secrets{current: secret}
			id, reason, err := gate.Identify(t.Context(), c.give)
			if id.UserID != c.user || reason != c.reason {
				t.Errorf("got %q, %q, want %q, %q", id.UserID, reason, c.user, c.reason)
			}
			if refused := errors.Is(err, fault.Unauthenticated); refused != (c.reason != "") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// The email of a loopback operator is its name at localhost. A sidecar's operator has the email and groups of the
// headers (A-AUTH-LOOP-03, A-AUTH-SIDE-01).
func TestIdentity(t *testing.T) {
	t.Parallel()
	secret := []byte("secret")
	gate := access.Gate{Mode: access.Loopback, Operator: "ann", Secrets: &secrets{current: secret}}
	id, _, err := gate.Identify(t.Context(), access.Credentials{Session: access.SessionToken(secret)})
	if err != nil || id.Email != "ann@localhost" || len(id.Groups) != 0 {
		t.Errorf("got %+v, %v", id, err)
	}
	gate = access.Gate{Mode: access.Sidecar, Nonce: "n"}
	id, _, err = gate.Identify(t.Context(), access.Credentials{
		UserID: "bob", Nonce: "n", Email: "b@x", Groups: "dev, ops,",
	})
	if err != nil || id.Email != "b@x" || len(id.Groups) != 2 || id.Groups[1] != "ops" {
		t.Errorf("got %+v, %v", id, err)
	}
}

// Cookies of a replaced secret are refused, and the first cookie of the new secret makes the gate fetch it.
func TestSecretChanges(t *testing.T) {
	t.Parallel()
	s := &secrets{current: []byte("old"), next: []byte("new")}
	gate := access.Gate{Mode: access.Loopback, Operator: "ann", Secrets: s}
	if _, _, err := gate.Identify(
		t.Context(), access.Credentials{Session: access.SessionToken([]byte("new"))},
	); err != nil {
		t.Errorf("the new cookie: %v", err)
	}
	if _, reason, _ := gate.Identify(
		t.Context(), access.Credentials{Session: access.SessionToken([]byte("old"))},
	); reason != access.InvalidCookie {
		t.Errorf("the old cookie: %q", reason)
	}
	gate.Secrets = &secrets{}
	if _, reason, err := gate.Identify(t.Context(), access.Credentials{Session: "x"}); !errors.Is(err,
		fault.Unavailable) || reason != "" {
		t.Errorf("without a secret: %q, %v", reason, err)
	}
}

// The token in the header must equal the one in the cookie, and belong to the user (A-CSRF-03).
func TestCheckCSRF(t *testing.T) {
	t.Parallel()
	secret := []byte("secret")
	ann, bob := access.CSRFToken(secret, "ann"), access.CSRFToken(secret, "bob")
	for name, c := range map[string]struct {
		sent, cookie string
		ok           bool
	}{
		"equal": {ann, ann, true}, "neither": {"", "", false}, "header only": {ann, "", false},
		"cookie only": {"", ann, false},
		"different":   {ann, bob, false}, "another user's": {bob, bob, false}, "made up": {"x", "x", false},
	} {
		err := access.CheckCSRF(t.Context(), &secrets{current: secret}, "ann", c.sent, c.cookie)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && fault.From(err).Details["reason"] != "csrf_mismatch" {
			t.Errorf("%s: details %v", name, fault.From(err).Details)
		}
	}
}

// Requests are accepted under the listen address and the UI URL, and under no other host or origin.
func TestHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, ui string
		host       string
		origin     string
		want       bool
	}{
		{"127.0.0.1:7420", "", "127.0.0.1:7420", "http://127.0.0.1:7420", true},
		{"127.0.0.1:7420", "", "LocalHost:7420", "http://localhost:7420", true},
		{"127.0.0.1:7420", "", "[::1]:7420", "http://[::1]:7420", true},
		{"127.0.0.1:7420", "", "localhost:7421", "http://localhost:7421", false},
		{"127.0.0.1:7420", "", "localhost", "http://localhost", false},
		{"127.0.0.1:7420", "", "evil.example:7420", "http://evil.example:7420", false},
		{"127.0.0.1:7420", "", "", "null", false},
		{"127.0.0.1:7420", "", "10.0.0.1:7420", "http://10.0.0.1:7420", false},
		{"127.0.0.1:80", "", "localhost", "http://localhost", true},
		{"0.0.0.0:7420", "", "10.0.0.1:7420", "http://10.0.0.1:7420", true},
		{"[::]:7420", "", "[fe80::1]:7420", "http://[fe80::1]:7420", true},
		{"0.0.0.0:7420", "", "evil.example:7420", "http://evil.example:7420", false},
		{"0.0.0.0:7420", "", "10.0.0.1:80", "http://10.0.0.1", false},
		{"box.lan:7420", "", "box.lan:7420", "http://box.lan:7420", true},
		{"127.0.0.1:7420", "https://kaged.example", "kaged.example", "https://kaged.example", true},
		{"127.0.0.1:7420", "https://kaged.example/", "kaged.example:443", "https://kaged.example:443", true},
		{"127.0.0.1:7420", "https://kaged.example:8443", "kaged.example:8443", "https://kaged.example:8443", true},
	} {
		h, err := access.NewHosts(c.listen, c.ui)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.AllowsHost(c.host); got != c.want {
			t.Errorf("on %s, UI %q: host %q allowed %v", c.listen, c.ui, c.host, got)
		}
		if got := h.AllowsOrigin(c.origin); got != c.want {
			t.Errorf("on %s, UI %q: origin %q allowed %v", c.listen, c.ui, c.origin, got)
		}
	}
	h, err := access.NewHosts("127.0.0.1:7420", "https://kaged.example")
	if err != nil {
		t.Fatal(err)
	}
	if h.AllowsOrigin("http://kaged.example") || h.AllowsOrigin("https://localhost:7420") {
		t.Error("an origin of another scheme is allowed")
	}
	for _, bad := range []string{"kaged.example", "ftp://x", "http://", "http://a?b", "http://u@x"} {
		if _, err := access.NewHosts("127.0.0.1:1", bad); !errors.Is(err, fault.BadRequest) {
			t.Errorf("UI URL %q: %v", bad, err)
		}
	}
}

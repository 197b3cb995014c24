package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// bearing returns a client with an API token of user with a scope.
func (d *daemon) bearing(user string, scope apiv1.TokenScope) *client {
	text := access.TokenPrefix + user + scope.String()
	d.manager.with(func() {
		if d.manager.api == nil {
			d.manager.api = map[string]*sessionmanagerv1.AuthenticateTokenResponse{}
		}
		d.manager.api[text] = &sessionmanagerv1.AuthenticateTokenResponse{
			UserId: user, TokenId: "01T" + user,
			Scope: scope,
		}
	})
	c := d.client()
	c.header.Set("Authorization", "Bearer "+text)
	c.noToken = true
	return c
}

// neededOf returns the scope that a route should need by the documentation: reading needs read, work on sessions
// and issues needs run, everything else needs admin, and tokens cannot manage tokens.
func neededOf(e exchange) access.Scope {
	switch {
	case strings.Contains(e.route, "/tokens"):
		return access.NoToken
	case e.method == http.MethodGet:
		return access.ScopeRead
	case e.method == http.MethodPut, strings.Contains(e.route, "/approvals/"):
		return access.ScopeAdmin
	case strings.Contains(e.route, "/sessions"), strings.Contains(e.route, "/issues"):
		return access.ScopeRun
	}
	return access.ScopeAdmin
}

// A token allows exactly the routes of its scope, without cookies and CSRF token. Its changes and its refusals are
// recorded in the audit log; changes have its id.
func TestScopesOfTokens(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"operator": "ann", "audit_denials": 10_000}})
	for scope, name := range map[apiv1.TokenScope]access.Scope{
		apiv1.TokenScope_TOKEN_SCOPE_READ: access.ScopeRead, apiv1.TokenScope_TOKEN_SCOPE_RUN: access.ScopeRun,
		apiv1.TokenScope_TOKEN_SCOPE_ADMIN: access.ScopeAdmin,
	} {
		c := d.bearing("ann", scope)
		for _, e := range contract() {
			d.manager.replies(e.reply, nil)
			got := c.do(e.method, e.path, e.body)
			if !name.Allows(neededOf(e)) {
				r := got.refused(t, string(name)+" "+e.route, 403, "forbidden")
				if r.Details["reason"] != "token_scope" || r.Details["needed"] != string(neededOf(e)) {
					t.Errorf("%s %s: details %v", name, e.route, r.Details)
				}
				d.manager.audited(t, r.RequestID)
				continue
			}
			if got.status != e.status {
				t.Errorf("%s %s: %d %s", name, e.route, got.status, got.body)
			}
			if caller := d.manager.callers[0]; caller.UserID != "ann" || caller.AuthMode != "token" {
				t.Errorf("%s %s: the caller is %+v", name, e.route, caller)
			}
			if e.method != http.MethodGet {
				record := d.manager.audited(t, got.header.Get("X-Kaged-Request-Id")).GetRecords()[0]
				if p := record.GetPayload().AsMap(); record.GetEventType() != "auth.token_used" ||
					p["token_id"] != "01Tann" {
					t.Errorf("%s %s: audit %v", name, e.route, record)
				}
			}
		}
		if got := c.get("/api/v1/me"); got.status != 200 || !strings.Contains(got.body, `"user_id":"ann"`) {
			t.Errorf("%s: me is %d %s", name, got.status, got.body)
		}
		if got := c.get("/api/v1/sessions/01S/socket"); (got.status == 403) != (name == access.ScopeRead) {
			t.Errorf("%s: the socket answers %d", name, got.status)
		}
	}
}

// An unknown token is refused even beside a valid cookie. A token of another operator is refused in loopback mode,
// and behind a sidecar that names an operator. Insecure mode ignores tokens.
func TestTokensByMode(t *testing.T) {
	t.Parallel()
	sidecar := map[string]any{"auth": "sidecar", "sidecar_nonce": "nonce"}
	for name, c := range map[string]struct {
		setup  setup
		header http.Header // in addition to ann's token
		token  string      // replaces ann's token
		reason string      // "" for an accepted caller
		user   string
	}{
		"loopback": {setup{config: map[string]any{"operator": "ann"}}, nil, "", "", "ann"},
		"loopback, another operator": {
			setup{config: map[string]any{"operator": "bob"}},
			nil, "",
			"token_of_another", "",
		},
		"loopback, unknown":      {setup{}, nil, "kaged_unknown", "invalid_token", ""},
		"loopback, none of ours": {setup{}, nil, "eyJhbGciOi", "missing_cookie", ""},
		"sidecar": {
			setup{config: sidecar},
			http.Header{"X-Kaged-Auth-Nonce": {"nonce"}},
			"",
			"", "ann",
		},
		"sidecar, the same operator": {
			setup{config: sidecar}, http.Header{
				"X-Kaged-Auth-Nonce": {"nonce"},
				"X-Kaged-User-Id":    {"ann"},
			}, "", "", "ann",
		},
		"sidecar, another operator": {
			setup{config: sidecar},
			http.Header{"X-Kaged-Auth-Nonce": {"nonce"}, "X-Kaged-User-Id": {"bob"}},
			"",
			"token_of_another", "",
		},
		"sidecar, none of ours": {
			setup{config: sidecar}, http.Header{
				"X-Kaged-Auth-Nonce": {"nonce"},
				"X-Kaged-User-Id":    {"bob"},
			}, "eyJhbGciOi", "", "bob",
		},
		"sidecar, no nonce": {setup{config: sidecar}, nil, "", "missing_nonce", ""},
		"sidecar, wrong nonce": {
			setup{config: sidecar},
			http.Header{"X-Kaged-Auth-Nonce": {"x"}},
			"",
			"wrong_nonce", "",
		},
		"insecure": {setup{insecure: true}, nil, "kaged_unknown", "", "insecure-mode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, c.setup)
			bearer := d.bearing("ann", apiv1.TokenScope_TOKEN_SCOPE_READ)
			if c.token != "" {
				bearer.header.Set("Authorization", "bearer  "+c.token)
			}
			for key, values := range c.header {
				bearer.header[key] = values
			}
			got := bearer.get("/api/v1/me")
			if c.reason == "" {
				if got.status != 200 || !strings.Contains(got.body, `"user_id":"`+c.user+`"`) {
					t.Errorf("%d %s", got.status, got.body)
				}
				return
			}
			r := got.refused(t, name, 401, "unauthenticated")
			if p := d.manager.audited(t, r.RequestID).GetRecords()[0].GetPayload().AsMap(); p["reason"] != c.reason {
				t.Errorf("audit %v", p)
			}
		})
	}
}

// A token takes precedence over a cookie: an invalid token is refused beside a valid cookie. Two tokens are
// refused.
func TestTwoCredentials(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"operator": "ann"}})
	c := d.operator()
	c.header.Set("Authorization", "Bearer kaged_unknown")
	c.get("/api/v1/me").refused(t, "a bad token beside a good cookie", 401, "unauthenticated")
	c.header["Authorization"] = []string{"Bearer kaged_a", "Bearer kaged_b"}
	if r := c.get("/api/v1/me").refused(t, "two tokens", 400,
		"bad_request"); r.Details["reason"] != "repeated_header" {
		t.Errorf("details %v", r.Details)
	}
}

package gateway_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/gateway/internal/server"
)

// A malformed request is refused before its backend is called (A-ERR-CODE-01, -02, A-WIRE-CTYPE-01, A-CONTRA-04).
func TestBadRequests(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"body_limit": int64(1000)}})
	c := d.operator()
	d.manager.replies(&apiv1.PostMessageResponse{}, nil)
	const post = "/api/v1/sessions/01S/messages"
	large := `{"content":"` + strings.Repeat("x", 1000) + `"}`
	for name, x := range map[string]struct {
		method, path, body string
		header             http.Header
		status             int
		code               string
		field              string
	}{
		"no JSON":      {"POST", post, `{"content"`, nil, 400, "bad_request", ""},
		"not UTF-8":    {"POST", post, "{\"content\":\"\xff\"}", nil, 400, "bad_request", ""},
		"a wrong type": {"POST", post, `{"content":1}`, nil, 400, "validation_failed", "content"},
		"a fraction": {
			"POST", post, `{"max_steps_override":1.5}`, nil, 400, "validation_failed", "max_steps_override",
		},
		"out of range": {
			"POST", post, `{"max_steps_override":99999999999}`, nil, 422, "validation_failed", "max_steps_override",
		},
		"a key twice":     {"POST", post, `{"content":"a","content":"b"}`, nil, 400, "validation_failed", "content"},
		"XML":             {"POST", post, `<a/>`, http.Header{"Content-Type": {"text/xml"}}, 400, "bad_request", ""},
		"no content type": {"POST", post, `{}`, http.Header{"Content-Type": {""}}, 400, "bad_request", ""},
		"another charset": {
			"POST", post, `{}`, http.Header{"Content-Type": {"application/json; charset=latin1"}}, 400, "bad_request", "",
		},
		"a form": {
			"POST", post, `content=x`,
			http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			400, "bad_request",
			"",
		},
		"too large":               {"POST", post, large, nil, 413, "payload_too_large", ""},
		"a word for a number":     {"GET", "/api/v1/projects?limit=abc", "", nil, 400, "validation_failed", "limit"},
		"nothing for a number":    {"GET", "/api/v1/projects?limit=", "", nil, 400, "validation_failed", "limit"},
		"a fraction in the query": {"GET", "/api/v1/projects?limit=1.0", "", nil, 400, "validation_failed", "limit"},
		"past 32 bits":            {"GET", "/api/v1/projects?limit=4294967297", "", nil, 400, "validation_failed", "limit"},
		"a parameter twice":       {"GET", "/api/v1/projects?limit=1&limit=2", "", nil, 400, "validation_failed", "limit"},
		"no boolean": {
			"DELETE", "/api/v1/sessions/01S?confirm=yes", "", nil, 400, "validation_failed", "confirm",
		},
		"text that is not UTF-8":   {"GET", "/api/v1/projects?cursor=%ff", "", nil, 400, "validation_failed", "cursor"},
		"an unknown route":         {"GET", "/api/v1/zzz", "", http.Header{"Accept": {"text/html"}}, 404, "not_found", ""},
		"another version":          {"GET", "/api/v2/me", "", nil, 404, "not_found", ""},
		"no version":               {"GET", "/api/me", "", nil, 404, "not_found", ""},
		"a slash too many":         {"GET", "/api/v1//me", "", nil, 404, "not_found", ""},
		"a slash at the end":       {"GET", "/api/v1/me/", "", nil, 404, "not_found", ""},
		"dots":                     {"GET", "/api/v1/x/../me", "", nil, 404, "not_found", ""},
		"a slash inside an id":     {"GET", "/api/v1/projects/a%2Fb", "", nil, 404, "not_found", ""},
		"another method":           {"DELETE", "/api/v1/me", "", nil, 405, "method_not_allowed", ""},
		"another method of a page": {"POST", "/", "", nil, 405, "method_not_allowed", ""},
		// A-URL-REMOVED-01
		"the removed create route": {"POST", "/api/v1/projects", `{}`, nil, 405, "method_not_allowed", ""},
		"audit is append-only":     {"PUT", "/api/v1/audit", `{}`, nil, 405, "method_not_allowed", ""},
		"a made-up method":         {"BREW", "/api/v1/zzz", "", nil, 404, "not_found", ""},
	} {
		c.header = x.header
		got := c.do(x.method, x.path, x.body)
		r := got.refused(t, name, x.status, x.code)
		if x.field != "" {
			if diff := cmp.Diff([]any{x.field}, r.Details["fields"]); diff != "" {
				t.Errorf("%s: details.fields, want -, got +:\n%s", name, diff)
			}
		}
		if x.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow", name)
		}
		if x.status == 413 && r.Details["limit_bytes"] != float64(1000) {
			t.Errorf("%s: details %v", name, r.Details)
		}
	}
	c.header = nil
	d.manager.with(func() {
		if len(d.manager.asked) > 0 {
			t.Errorf("session-manager was asked %v", d.manager.asked)
		}
	})
}

// A chunked body above the limit is refused.
func TestChunkedBodyIsBounded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{config: map[string]any{"body_limit": int64(1000)}})
	c := d.operator()
	r, err := http.NewRequestWithContext(t.Context(), "POST", d.base+"/api/v1/sessions/01S/messages",
		struct{ *strings.Reader }{strings.NewReader(`{"content":"` + strings.Repeat("x", 5000) + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Kaged-CSRF", c.cookie("kaged_csrf"))
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A client's headers do not reach session-manager, neither as the caller nor as metadata.
func TestHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	c.header = http.Header{
		"Grpc-Metadata-Kaged-User-Id": {"eve"}, "Authorization": {"Bearer x"}, "X-Kaged-User-Id": {"eve"},
		"Grpc-Timeout":           {"1n"},
		"X-Http-Method-Override": {"DELETE"}, "Te": {"trailers"},
	}
	d.manager.replies(&apiv1.ListProjectsResponse{}, nil)
	if got := c.get("/api/v1/projects"); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	d.manager.with(func() {
		if user := d.manager.callers[0].UserID; user == "eve" || user == "" {
			t.Errorf("the call was made for %q", user)
		}
	})
}

// An empty body counts as an empty object. HEAD is answered like GET, without a body.
func TestEmptyBodyAndHead(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	d.manager.replies(&apiv1.CreateSessionResponse{}, nil)
	if got := c.do("POST", "/api/v1/projects/p/sessions", ""); got.status != 201 {
		t.Errorf("an empty body: %d %s", got.status, got.body)
	}
	d.manager.replies(&apiv1.ListProjectsResponse{}, nil)
	if got := c.do("HEAD", "/api/v1/projects", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
}

// A path with characters that no service accepts is answered with 404 and the error object on every route, without
// a call. So are routes for uploads, GraphQL and webhooks, which do not exist (A-OPEN-01, A-OPEN-02).
func TestPathsThatNameNothing(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	asked := func() (n int) {
		d.manager.with(func() { n = len(d.manager.asked) })
		return n
	}
	before := asked()
	for _, path := range []string{"/api/v1/blobs", "/api/v1/graphql", "/api/v1/webhooks"} {
		c.do("POST", path, `{}`).refused(t, path, 404, "not_found")
	}
	for _, pattern := range append(server.ContractRoutes(), "GET /api/v1/sessions/{id}/socket") {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(path, "{") {
			continue
		}
		for _, odd := range []string{"%ff", "%c0%80", "%ed%a0%80", "a%ffb", "%00"} {
			url := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, odd)
			c.do(method, url, "").refused(t, method+" "+url, 404, "not_found")
		}
	}
	if n := asked(); n != before {
		t.Errorf("got %d calls of session-manager, want none", n-before)
	}
}

// languageServers is the answer of the routes of language servers.
var languageServers = []*commonv1.RunningLanguageServer{
	{Id: "01L", Lang: "go", Command: []string{"gopls"}, State: "ready", Pid: 7},
}

const languageServersJSON = `{"servers":[{"id":"01L","lang":"go","command":["gopls"],"state":"ready","pid":7,` +
	`"restart_count":0,` +
	`"open_files":0,"project_id":"","root":"","caged":false,"started_at":0,"log":""}]}`

// A slash in an id, written as %2F, does not match another route: the request is answered with 404.
func TestSlashesInsideIDs(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	for _, e := range contract() {
		_, pattern, _ := strings.Cut(e.route, " ")
		pattern, _, _ = strings.Cut(pattern, "?")
		path, query, _ := strings.Cut(e.path, "?")
		parts := strings.Split(path, "/")
		for i, name := range strings.Split(pattern, "/") {
			if !strings.HasPrefix(name, "{") || strings.HasSuffix(name, "...}") {
				continue
			}
			for _, slash := range []string{"%2F", "%2f"} {
				changed := slices.Clone(parts)
				changed[i] += slash + "y"
				d.manager.replies(e.reply, nil)
				got := c.do(e.method, strings.Join(changed, "/")+"?"+query, e.body)
				got.refused(t, e.route+" as "+strings.Join(changed, "/"), 404, "not_found")
				d.manager.with(func() {
					if len(d.manager.asked) > 0 {
						t.Errorf("%s as %s: got a call of %v, want none", e.route, strings.Join(changed, "/"), d.manager.asked)
					}
				})
			}
		}
	}
}

package gateway_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// Each named limit applies to its own route, and one limit applies to all other requests. Above a limit the answer
// is 429 with the time to wait. A-RATE-01 to A-RATE-06, A-ERR-CODE-09, A-TEST-06.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	d := start(t, setup{})
	c := d.operator()
	left := map[string]int32{"messages": 2, "validations": 2, "dsl_writes": 2, "audit": 2, "requests": 2}
	var mu sync.Mutex
	d.manager.mu.Lock()
	d.manager.rates = func(r *sessionmanagerv1.TakeTokensRequest) *sessionmanagerv1.TakeTokensResponse {
		mu.Lock()
		defer mu.Unlock()
		n := min(left[r.GetLimit()], r.GetWanted())
		left[r.GetLimit()] -= n
		return &sessionmanagerv1.TakeTokensResponse{Taken: n, RetryAfterMs: 90_000}
	}
	d.manager.mu.Unlock()
	for limit, r := range map[string]struct {
		method, path, body string
	}{
		"messages":    {http.MethodPost, "/api/v1/sessions/01S/messages", `{"content":"x"}`},
		"validations": {http.MethodPost, "/api/v1/dsl/validate", `{"dsl":"x"}`},
		"dsl_writes":  {http.MethodPut, "/api/v1/projects/p/dsl", `{"dsl":"x"}`},
		"audit":       {http.MethodGet, "/api/v1/audit", ""},
		"requests":    {http.MethodGet, "/api/v1/me", ""},
	} {
		d.manager.replies(&apiv1.PostMessageResponse{}, nil)
		for range 2 {
			if got := c.do(r.method, r.path, r.body); got.status == http.StatusTooManyRequests {
				t.Errorf("%s: refused before the limit: %s", limit, got.body)
			}
		}
		got := c.do(r.method, r.path, r.body)
		got.refused(t, limit, http.StatusTooManyRequests, "rate_limited")
		body := string(got.body)
		if !strings.Contains(body, `"retry_after_ms":`) || !strings.Contains(body, `"limit":"`+limit+`"`) {
			t.Errorf("%s: %s", limit, got.body)
		}
		if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 90 {
			t.Errorf("%s: got Retry-After %q, want 1 to 90 seconds", limit, got.header.Get("Retry-After"))
		}
	}
}

// If rate limits are off, no request takes a token, so none is refused.
func TestRateLimitsOff(t *testing.T) {
	t.Parallel()
	d := start(t, setup{rateLimitsOff: true})
	c := d.operator()
	d.manager.with(func() {
		d.manager.rates = func(r *sessionmanagerv1.TakeTokensRequest) *sessionmanagerv1.TakeTokensResponse {
			t.Errorf("%d tokens of %s are asked for", r.GetWanted(), r.GetLimit())
			return &sessionmanagerv1.TakeTokensResponse{RetryAfterMs: 90_000}
		}
	})
	d.manager.replies(&apiv1.PostMessageResponse{}, nil)
	for range 50 {
		if got := c.do(http.MethodPost, "/api/v1/sessions/01S/messages", `{"content":"x"}`); got.status >= 400 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
}

// A path parameter that is not a 64-bit integer is refused with a message of the API.
func TestNumbersInPaths(t *testing.T) {
	t.Parallel()
	c := start(t, setup{}).operator()
	for _, number := range []string{"99999999999999999999", "-99999999999999999999", "one"} {
		got := c.get("/api/v1/projects/music/issues/" + number)
		got.refused(t, number, http.StatusBadRequest, "validation_failed")
		if strings.Contains(string(got.body), "strconv") || !strings.Contains(string(got.body), `"fields":["number"]`) {
			t.Errorf("%s: %s", number, got.body)
		}
	}
}

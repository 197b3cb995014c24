package wire

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// A provider that limits requests says when it accepts them again: how long to wait, or when the exhausted limits
// reset. The times are of its own clock.
func TestResets(t *testing.T) {
	t.Parallel()
	const date = "Mon, 23 Nov 2026 12:00:00 GMT"
	for name, c := range map[string]struct {
		headers map[string]string
		want    time.Duration
	}{
		"OpenAI's tokens": {map[string]string{
			"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1h0m0s",
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s",
		}, 6 * time.Minute},
		"both of its limits": {map[string]string{
			"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "20ms",
			"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "1.5s",
		}, 1500 * time.Millisecond},
		"Anthropic's requests": {map[string]string{
			"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-11-23T12:00:30Z",
			"anthropic-ratelimit-tokens-remaining": "1000", "anthropic-ratelimit-tokens-reset": "2026-11-23T13:00:00Z",
		}, 30 * time.Second},
		"milliseconds of the clock": {map[string]string{
			"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795435210000",
		}, 10 * time.Second},
		"seconds of the clock": {map[string]string{
			"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795435205",
		}, 5 * time.Second},
		"seconds": {map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "7"}, 7 * time.Second},
		"a wait by name": {map[string]string{
			"Retry-After": "2", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s",
		}, 2 * time.Second},
		"limits that are not used up": {map[string]string{
			"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s",
		}, 0},
		"a reset without its rest": {map[string]string{"x-ratelimit-reset-tokens": "6m0s"}, 0},
		"a reset that is over": {map[string]string{
			"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-11-23T11:00:30Z",
		}, 0},
		"nonsense": {map[string]string{"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, 0},
		"no number of this world": {map[string]string{
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1e300",
		}, 0},
		"a year": {map[string]string{
			"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "8760h",
		}, maxRetryAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Date": {date}}
			for k, v := range c.headers {
				h[k] = []string{v}
			}
			f := classifier{target: llm.Target{Provider: "p"}}.status(&StatusError{Status: 429, Header: h, Body: []byte("{}")})
			ms, _ := f.Details["retry_after_ms"].(int64)
			if got := time.Duration(ms) * time.Millisecond; got != c.want || f.Code != fault.ProviderRateLimited {
				t.Errorf("%s asks to wait %s, want %s", f.Code, got, c.want)
			}
			f = classifier{target: llm.Target{Provider: "p"}}.status(&StatusError{Status: 400, Header: h, Body: []byte("{}")})
			if _, waits := f.Details["retry_after_ms"]; waits && c.headers["Retry-After"] == "" {
				t.Error("a request that is refused for what it says is asked to wait")
			}
		})
	}
}

// Google also sends a short wait for a daily quota, which resets at midnight in California.
func TestGoogleDailyQuota(t *testing.T) {
	t.Parallel()
	details := func(quota string) json.RawMessage {
		return json.RawMessage(`[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + quota +
			`"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"14s"}]`)
	}
	if _, wait := googleDetails(details("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")); wait != 14*time.Second {
		t.Errorf("a quota of a minute lasts %s", wait)
	}
	want := untilGoogleDay(time.Now())
	_, wait := googleDetails(details("GenerateRequestsPerDayPerProjectPerModel-FreeTier"))
	if wait < want-time.Minute {
		t.Errorf("a quota of a day lasts %s, want %s", wait, want)
	}
	if got := untilGoogleDay(time.Date(2026, 11, 23, 7, 30, 0, 0, time.UTC)); got != 30*time.Minute {
		t.Errorf("at half past 11 in the evening there it is %s", got)
	}
}

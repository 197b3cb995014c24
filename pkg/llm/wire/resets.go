package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// reset returns when the limits are over that an answer says are used up, from now: the latest of them. Providers that
// name no time to wait name those of their limits, in headers that differ in their beginnings: x-ratelimit-reset-tokens
// beside x-ratelimit-remaining-tokens, anthropic-ratelimit-requests-reset beside anthropic-ratelimit-requests-
// remaining.
func reset(h http.Header) (time.Duration, bool) {
	lower := make(map[string]string, len(h))
	for k, v := range h {
		if len(v) > 0 {
			lower[strings.ToLower(k)] = strings.TrimSpace(v[0])
		}
	}
	now, err := http.ParseTime(lower["date"])
	if err != nil {
		now = time.Now()
	}
	longest := time.Duration(0)
	for k, v := range lower {
		if !strings.Contains(k, "ratelimit") || !strings.Contains(k, "reset") {
			continue
		}
		left, err := strconv.ParseFloat(lower[strings.Replace(k, "reset", "remaining", 1)], 64)
		if err == nil && left <= 0 {
			longest = max(longest, resetIn(v, now))
		}
	}
	return min(longest, maxRetryAfter), longest > 0
}

// A number that names a moment and no span is this large at least: seconds of a clock, or milliseconds.
const (
	clockSeconds      = 1e9
	clockMilliseconds = 1e12
)

// resetIn reads the time of a reset, 0 for one that is over or is not understood: a span such as 6m0s, seconds, a
// moment in seconds or milliseconds of the clock, or one in words.
func resetIn(text string, now time.Time) time.Duration {
	if span, err := time.ParseDuration(text); err == nil {
		return span
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Sub(now)
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || n < 0 || n > 1e15:
		return 0
	case n >= clockMilliseconds:
		return time.UnixMilli(int64(n)).Sub(now)
	case n >= clockSeconds:
		return time.Unix(int64(n), 0).Sub(now)
	}
	return time.Duration(min(n, maxRetryAfter.Seconds()) * float64(time.Second))
}

// untilGoogleDay returns how long Google's quotas of a day last, which end at midnight in California. Its summer time
// is left out: then the answer is an hour late.
func untilGoogleDay(now time.Time) time.Duration {
	there := now.In(time.FixedZone("", -8*60*60))
	year, month, day := there.Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, there.Location()).Sub(now)
}

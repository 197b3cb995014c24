package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// reset returns the time until the last of the exhausted limits in an answer resets. Providers that send no wait send
// the resets of their limits, in headers with different prefixes: x-ratelimit-reset-tokens beside
// x-ratelimit-remaining-tokens, anthropic-ratelimit-requests-reset beside anthropic-ratelimit-requests-remaining.
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

// Smallest numbers that are a time of the clock and not a duration: in seconds, or in milliseconds.
const (
	clockSeconds      = 1e9
	clockMilliseconds = 1e12
)

// resetIn parses the time of a reset, 0 for a past or an invalid one: a duration such as 6m0s, a number of seconds, a
// time of the clock in seconds or milliseconds, or a date.
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

// untilGoogleDay returns the time until Google's daily quotas reset, at midnight in California. It ignores daylight
// saving time, so it may be an hour too long.
func untilGoogleDay(now time.Time) time.Duration {
	there := now.In(time.FixedZone("", -8*60*60))
	year, month, day := there.Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, there.Location()).Sub(now)
}

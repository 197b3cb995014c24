package kagedtest

import (
	"os"
	"regexp"
	"strconv"
	"time"
)

// Clock measures time without the time in which a task of this machine waited for a processor. So a test can check a
// promise about kaged's own waits beside other tests. Without pressure information of the kernel it is a plain clock.
type Clock struct {
	began   time.Time
	stalled time.Duration // at the begin
}

// StartClock starts a clock.
func StartClock() Clock { return Clock{time.Now(), stalled()} }

// Elapsed returns the measured time since the start.
func (c Clock) Elapsed() time.Duration { return time.Since(c.began) - (stalled() - c.stalled) }

// Within reports whether less than limit has elapsed. It is false after Limit, so that a check ends in any case.
func (c Clock) Within(limit time.Duration) bool {
	return c.Elapsed() < limit && time.Since(c.began) < Limit
}

var stalledTotal = regexp.MustCompile(`(?m)^some .* total=(\d+)$`)

// stalled returns the total time in which some task waited for a processor, 0 if the kernel does not count it.
func stalled() time.Duration {
	text, _ := os.ReadFile("/proc/pressure/cpu")
	m := stalledTotal.FindSubmatch(text)
	if m == nil {
		return 0
	}
	us, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return time.Duration(us) * time.Microsecond
}

package socket

import "time"

// Absence measures how long something has been unavailable, by checks at intervals. It counts from the first failed
// check and not from the last good one, because a machine that slept checks late.
type Absence struct{ since time.Time }

// Check takes the result of a check at now. It reports whether all checks for at least grace have failed.
func (a *Absence) Check(now time.Time, err error, grace time.Duration) (over bool) {
	switch {
	case err == nil:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = now
	default:
		return now.Sub(a.since) >= grace
	}
	return false
}

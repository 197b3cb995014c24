package runs

import (
	"testing"
	"testing/synctest"
	"time"
)

// The time of work stands while operators are asked, however many are, and its bound is reached by work alone.
func TestWorktime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w worktime
		over := make(chan struct{})
		pass := func(d time.Duration) { <-time.After(d) }
		pass(time.Hour) // it has not begun
		w.start()
		pass(10 * time.Minute)
		w.bound(15*time.Minute, func() { close(over) })
		w.wait()
		w.wait()
		pass(time.Hour)
		w.resume()
		pass(time.Hour)
		w.resume()
		pass(4 * time.Minute)
		if got := w.total(); got != 14*time.Minute {
			t.Errorf("it worked %s", got)
		}
		asOf := time.Now()
		<-over
		if got := time.Since(asOf); got != time.Minute {
			t.Errorf("the bound was reached after %s more", got)
		}
		w.bound(0, nil)
		w.stop()
		pass(time.Hour)
		if got := w.total(); got != 15*time.Minute || !w.bounded() {
			t.Errorf("at the end it is %s", got)
		}
	})
}

// A bound that has passed is reached at once, a bound that was taken back never.
func TestWorktimeBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w worktime
		w.start()
		w.bound(time.Minute, func() { t.Error("a bound was reached that was taken back") })
		w.bound(0, nil)
		<-time.After(time.Hour)
		over := make(chan struct{})
		w.bound(time.Minute, func() { close(over) })
		<-over
		w.stop()
	})
}

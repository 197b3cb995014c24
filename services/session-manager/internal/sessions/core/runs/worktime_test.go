package runs

import (
	"testing"
	"testing/synctest"
	"time"
)

// The working time pauses while any operator's answer is pending, and only working time counts towards its bound.
func TestWorktime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w worktime
		over := make(chan struct{})
		pass := func(d time.Duration) { <-time.After(d) }
		pass(time.Hour) // before start
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

// A bound below the working time is reached at once, a removed bound never.
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

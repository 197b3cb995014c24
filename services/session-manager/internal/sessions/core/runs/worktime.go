package runs

import (
	"sync"
	"time"
)

// worktime measures the working time of a run. It pauses while an operator is asked. It is safe for concurrent use.
type worktime struct {
	mu     sync.Mutex // guards the fields below
	since  time.Time  // zero while paused
	worked time.Duration
	asked  int
	bounds bool
	most   time.Duration // bound of the working time, if over is not nil
	over   func()        // called at the bound
	timer  *time.Timer   // nil unless it runs towards the bound
}

// start starts the clock.
func (w *worktime) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run()
}

// wait pauses the clock until resume was called as often as wait.
func (w *worktime) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.stand()
}

// resume undoes one wait.
func (w *worktime) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked--; w.asked == 0 {
		w.run()
	}
}

// stop stops the clock for good.
func (w *worktime) stop() { w.wait() }

// total returns the working time so far.
func (w *worktime) total() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.worked
	}
	return w.worked + time.Since(w.since)
}

// bound has over called once the working time reaches most. It replaces an earlier bound; a nil over removes it.
func (w *worktime) bound(most time.Duration, over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	running := !w.since.IsZero()
	w.stand()
	w.most, w.over, w.bounds = most, over, w.bounds || over != nil
	if running {
		w.run()
	}
}

// bounded reports whether a bound was ever set.
func (w *worktime) bounded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bounds
}

// run starts the clock unless it is paused. The caller holds mu.
func (w *worktime) run() {
	if w.asked > 0 || !w.since.IsZero() {
		return
	}
	w.since = time.Now()
	if w.over != nil {
		w.timer = time.AfterFunc(max(w.most-w.worked, 0), w.over)
	}
}

// stand stops the clock. The caller holds mu.
func (w *worktime) stand() {
	if w.since.IsZero() {
		return
	}
	w.worked += time.Since(w.since)
	w.since = time.Time{}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

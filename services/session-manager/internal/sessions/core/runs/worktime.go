package runs

import (
	"sync"
	"time"
)

// worktime is the time that a run has worked. It stands while an operator is asked. It is safe for concurrent use.
type worktime struct {
	mu     sync.Mutex // guards the fields below
	since  time.Time  // zero while it stands
	worked time.Duration
	asked  int
	bounds bool
	most   time.Duration // where bounds
	over   func()        // called at the end of most
	timer  *time.Timer   // nil unless it runs towards most
}

// start lets the time run.
func (w *worktime) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run()
}

// wait stops the time until as many calls of resume.
func (w *worktime) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.stand()
}

// resume undoes a wait.
func (w *worktime) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked--; w.asked == 0 {
		w.run()
	}
}

// stop ends the time for good.
func (w *worktime) stop() { w.wait() }

// total returns the time so far.
func (w *worktime) total() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.worked
	}
	return w.worked + time.Since(w.since)
}

// bound has over called when the time has come to most. It replaces an earlier bound; a nil over removes it.
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

// bounded reports whether there was a bound.
func (w *worktime) bounded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bounds
}

// run lets the time run. The caller holds mu.
func (w *worktime) run() {
	if w.asked > 0 || !w.since.IsZero() {
		return
	}
	w.since = time.Now()
	if w.over != nil {
		w.timer = time.AfterFunc(max(w.most-w.worked, 0), w.over)
	}
}

// stand stops the time. The caller holds mu.
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

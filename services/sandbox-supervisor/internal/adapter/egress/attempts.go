package egress

import (
	"fmt"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
)

const (
	// together is the interval of reports on repeated attempts.
	together = time.Second
	// maxKinds limits the distinct attempts per interval; further ones are only counted.
	maxKinds = 256
)

// attempts reports the attempts of a cage: the first of a kind at once, repeated ones with a count once a second.
// Memory and reports are limited under any load.
type attempts struct {
	report func(contract.Attempt)

	mu     sync.Mutex // guards the fields below; held while report is called
	kinds  map[kind]*contract.Attempt
	order  []kind // by time of the first attempt
	more   int64  // attempts of kinds beyond maxKinds
	timer  *time.Timer
	closed bool
}

// kind identifies equal attempts.
type kind struct {
	target  string
	allowed bool
	rule    string
}

func newAttempts(report func(contract.Attempt)) *attempts {
	return &attempts{report: report, kinds: map[kind]*contract.Attempt{}}
}

// add reports or counts one attempt.
func (a *attempts) add(target string, allowed bool, rule string) { a.addMany(target, allowed, rule, 1) }

// addMany reports or counts n attempts of a kind.
func (a *attempts) addMany(target string, allowed bool, rule string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	k := kind{target, allowed, rule}
	if held := a.kinds[k]; held != nil {
		if held.Count == 0 {
			held.At = time.Now().UnixMilli()
		}
		held.Count += n
		return
	}
	if len(a.kinds) >= maxKinds {
		a.more += n
		return
	}
	first := contract.Attempt{At: time.Now().UnixMilli(), Target: target, Allowed: allowed, Rule: rule, Count: n}
	held := first
	held.Count = 0
	a.kinds[k] = &held
	a.order = append(a.order, k)
	if a.timer == nil {
		a.timer = time.AfterFunc(together, a.tell)
	}
	a.report(first)
}

// lost counts attempts without a known target.
func (a *attempts) lost(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n == 0 || a.closed {
		return
	}
	a.more += n
	if a.timer == nil {
		a.timer = time.AfterFunc(together, a.tell)
	}
}

// settle reports the counts of all kinds now.
func (a *attempts) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	for _, k := range a.order {
		if held := a.kinds[k]; held.Count > 0 {
			a.report(*held)
			held.Count = 0
		}
	}
}

// tell reports the counts, and forgets kinds without a new attempt.
func (a *attempts) tell() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.flush()
	}
}

// flush is tell with a.mu held by the caller.
func (a *attempts) flush() {
	again := a.order[:0]
	for _, k := range a.order {
		held := a.kinds[k]
		if held.Count == 0 {
			delete(a.kinds, k)
			continue
		}
		a.report(*held)
		held.Count = 0
		again = append(again, k)
	}
	a.order = again
	if a.more > 0 {
		a.report(contract.Attempt{
			At: time.Now().UnixMilli(), Target: "*", Count: a.more,
			Rule: fmt.Sprintf(
				"More was tried within a second than is told apart (%d targets); these are only counted.",
				maxKinds,
			),
		})
		a.more = 0
	}
	a.timer = nil
	if len(a.kinds) > 0 {
		a.timer = time.AfterFunc(together, a.tell)
	}
}

// close reports the last counts; report is not called afterwards.
func (a *attempts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.closed = true
}

package loop

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
)

// resets keeps the time at which each target accepts requests again, for all agents of a run. Its zero value is
// ready. It is safe for concurrent use.
type resets struct {
	mu sync.Mutex // guards of
	of map[string]reset
}

// reset is the time at which a target accepts requests again.
type reset struct {
	at    time.Time
	err   *fault.Error // the refusal with that time
	shown bool         // the target's omission was announced
}

// note stores the wait time of a refusal. A refusal without one changes no entry.
func (r *resets) note(target string, f *fault.Error) {
	wait := milliseconds(f.Details["retry_after_ms"])
	if wait <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]reset{}
	}
	r.of[target] = reset{at: time.Now().Add(time.Duration(wait * float64(time.Millisecond))), err: f}
}

// wait returns the remaining wait of a target and its refusal; 0 for a target that may be asked.
func (r *resets) wait(target string) (time.Duration, *fault.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := time.Until(r.of[target].at)
	if left <= 0 {
		delete(r.of, target)
		return 0, nil
	}
	return left, r.of[target].err
}

// announces reports whether a target is passed over for the first time since its refusal, and remembers it.
func (r *resets) announces(target string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.of[target]
	if !ok || known.shown {
		return false
	}
	known.shown = true
	r.of[target] = known
	return true
}

// passLimited removes the targets that still refuse requests. If all refuse, the one with the shortest wait stays.
func (a *attempts) passLimited() error {
	waits := make([]time.Duration, len(a.candidates))
	refusals := make([]*fault.Error, len(a.candidates))
	soonest := -1
	for i, c := range a.candidates {
		if c.unusable != nil {
			continue
		}
		waits[i], refusals[i] = a.run.resets.wait(c.key())
		if soonest < 0 || waits[i] < waits[soonest] {
			soonest = i
		}
	}
	var left []candidate
	for i, c := range a.candidates {
		if waits[i] == 0 || i == soonest {
			left = append(left, c)
			continue
		}
		a.errs = append(a.errs, refusals[i])
		if !a.run.resets.announces(c.key()) {
			continue
		}
		if err := a.run.emit(announced(refusals[i], a.tried+1, 0, a.candidates[soonest])); err != nil {
			return err
		}
	}
	a.candidates = left
	return nil
}

// awaitReset waits until a target accepts requests again. It returns the refusal if the wait exceeds LongestDelay.
func (a *attempts) awaitReset(ctx context.Context, c candidate) (*fault.Error, error) {
	wait, f := a.run.resets.wait(c.key())
	if wait == 0 {
		return nil, nil
	}
	if wait > a.run.deps.Limits.LongestDelay {
		a.errs = append(a.errs, f)
		return f, nil
	}
	return nil, a.pause(ctx, f, a.tried+1, wait, c)
}

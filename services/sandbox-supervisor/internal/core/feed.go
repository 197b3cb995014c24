package core

import (
	"context"
	"sync"

	"kaged.dev/pkg/contract"
)

// feed queues attempts for one reader, within limits: repeated attempts are counted while they wait, and so are
// attempts above the limit of kinds.
type feed struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	waiting []contract.Attempt // the first of each kind, in order, with the count of its attempts
	kinds   map[kind]int
}

// kind identifies equal attempts.
type kind struct {
	target, rule string
	allowed      bool
}

// maxKinds is the maximum number of kinds of attempts in a feed.
const maxKinds = 256

// others is the target of the attempt that represents all further kinds.
const others = "others"

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1), kinds: map[kind]int{}} }

// put adds an attempt. It never blocks.
func (f *feed) put(a contract.Attempt) {
	a.Count = max(a.Count, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	k := kind{a.Target, a.Rule, a.Allowed}
	at, known := f.kinds[k]
	if !known && len(f.waiting) >= maxKinds {
		a.Target, a.Rule = others, "Too many different attempts at once to list each."
		k = kind{a.Target, a.Rule, a.Allowed}
		at, known = f.kinds[k]
	}
	if known {
		f.waiting[at].Count += a.Count
		return
	}
	f.kinds[k] = len(f.waiting)
	f.waiting = append(f.waiting, a)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take empties the queue and returns its attempts.
func (f *feed) take() []contract.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := f.waiting
	f.waiting = nil
	clear(f.kinds)
	return waiting
}

// drain passes attempts to sink until done is closed and the queue is empty, sink fails, or ctx ends.
func (f *feed) drain(ctx context.Context, done <-chan struct{}, sink func(contract.Attempt) error) error {
	for over := false; ; {
		for _, a := range f.take() {
			if err := sink(a); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-f.wake:
		case <-done:
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

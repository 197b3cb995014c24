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

	mu        sync.Mutex
	waiting   []contract.Attempt // the first of each kind, in order, with the count of its attempts
	kinds     map[kind]int
	sink      func(contract.Attempt) error // of deliver; nil without it and after its failure
	delivered chan struct{}                // closed at the end of deliver's goroutine; nil if it does not run
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
	f.begin()
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

// deliver passes attempts to sink, one call at a time, until sink fails. It returns at once; a goroutine calls sink,
// which exists only while attempts wait, because most commands have none. Call it once, and instead of drain.
func (f *feed) deliver(sink func(contract.Attempt) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sink = sink
	f.begin()
}

// settle returns when all attempts are delivered.
func (f *feed) settle() {
	f.mu.Lock()
	delivered := f.delivered
	f.mu.Unlock()
	if delivered != nil {
		<-delivered
	}
}

// begin starts the goroutine of deliver if attempts wait for it. The caller holds f.mu.
func (f *feed) begin() {
	if f.sink == nil || f.delivered != nil || len(f.waiting) == 0 {
		return
	}
	f.delivered = make(chan struct{})
	go f.run()
}

// run delivers the waiting attempts.
func (f *feed) run() {
	for more := true; more; {
		failed := false
		for _, a := range f.take() {
			failed = failed || f.sink(a) != nil
		}
		more = f.rest(failed)
	}
}

// rest ends the goroutine of deliver, unless attempts wait.
func (f *feed) rest(failed bool) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if failed {
		f.sink = nil
	} else if len(f.waiting) > 0 {
		return true
	}
	close(f.delivered)
	f.delivered = nil
	return false
}

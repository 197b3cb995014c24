// Package parallel does work on several goroutines for a caller that waits for it. A panic of the work panics again in
// the caller, so that a caller that recovers, such as one that guards a call, covers it.
package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Each calls do for 0 to n-1 and returns when all calls have. It uses as many goroutines as there are processors, but
// gives each at least few calls; with work for one goroutine it uses the caller's.
func Each(n, few int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n/max(few, 1))
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	for range workers {
		wait := Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
		defer wait() // deferred, so that a panic of one does not keep the others from being waited for
	}
}

// Go calls do on another goroutine. wait returns when do has; if do panicked, wait panics with its value and stack.
// The caller calls wait once, before it returns.
func Go(do func()) (wait func()) {
	var group sync.WaitGroup
	var failure error
	group.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				failure = fmt.Errorf("%v\n%s", p, debug.Stack())
			}
		}()
		do()
	})
	return func() {
		group.Wait()
		if failure != nil {
			panic(failure)
		}
	}
}

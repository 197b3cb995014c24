package loop

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
)

// hold is the run's hold in the workspace, which keeps the run's processes while it lasts.
//
// Goroutines: one that holds the run in the workspace, from [invocation.enterWorkspace] to [Tree.leaveWorkspace].
type hold struct {
	release context.CancelFunc
	known   chan struct{} // closed when the workspace knows the run or is unreachable
	ended   sync.WaitGroup

	mu   sync.Mutex // held while an event is emitted; guards over
	over bool       // the run has ended: no event follows
}

// enterWorkspace starts to hold the run in its workspace. The first model call does not wait for it; the first tool
// call does.
func (v *invocation) enterWorkspace(ctx context.Context) {
	// The hold outlives the cancellation of the run, so that cancelled calls can end in order.
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	h := &hold{release: release, known: make(chan struct{})}
	caller := *v.toolContext
	h.ended.Go(func() {
		v.deps.Tools.HoldRun(life, &caller, sync.OnceFunc(func() { close(h.known) }), func(e contract.DebugEvent) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if !h.over {
				_ = v.emit(e) // a failing sink ends the run
			}
		})
	})
	v.hold = h
}

// awaitWorkspace returns when the workspace knows the run or is unreachable, or when ctx ends.
func (v *invocation) awaitWorkspace(ctx context.Context) {
	select {
	case <-v.hold.known:
	case <-ctx.Done():
	}
}

// keepRun makes the workspace keep the run for the next harness, once.
func (v *invocation) keepRun() {
	v.keeping.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), keepRunTimeout)
		defer cancel()
		if err := v.deps.Tools.KeepRun(ctx, v.toolContext); err != nil {
			v.deps.Log.Warn("the workspace did not keep a handed over run", "run_id", v.start.RunID, "error", err)
		}
	})
}

// keepRunTimeout is the longest wait for the workspace's answer.
const keepRunTimeout = 5 * time.Second

// leaveWorkspace ends the hold of the run and waits for it.
func (t *Tree) leaveWorkspace() {
	if t.hold == nil {
		return
	}
	t.hold.mu.Lock()
	t.hold.over = true
	t.hold.mu.Unlock()
	t.hold.release()
	t.hold.ended.Wait()
}

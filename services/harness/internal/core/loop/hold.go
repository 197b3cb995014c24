package loop

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
)

// hold tells the workspace that the run lives.
//
// Goroutines: one that holds the run in the workspace, from [invocation.enterWorkspace] to [Tree.leaveWorkspace].
type hold struct {
	release context.CancelFunc
	known   chan struct{} // closed when the workspace knows the run, or cannot be told
	ended   sync.WaitGroup

	mu   sync.Mutex // held while an event is emitted; guards over
	over bool       // the run has come to its end: no event follows
}

// enterWorkspace begins to hold the run in its workspace. No model waits for that, the first tool call does.
func (v *invocation) enterWorkspace(ctx context.Context) {
	// The hold outlives the cancellation of the run: the calls that it cuts off come to their own ends first.
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	h := &hold{release: release, known: make(chan struct{})}
	caller := *v.toolContext
	h.ended.Go(func() {
		v.deps.Tools.HoldRun(life, &caller, sync.OnceFunc(func() { close(h.known) }), func(e contract.DebugEvent) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if !h.over {
				_ = v.emit(e) // a sink that is gone ends the run
			}
		})
	})
	v.hold = h
}

// awaitWorkspace returns when the workspace knows the run or cannot be told, or when ctx ends.
func (v *invocation) awaitWorkspace(ctx context.Context) {
	select {
	case <-v.hold.known:
	case <-ctx.Done():
	}
}

// keepRun has the workspace keep the run for the next harness, once.
func (v *invocation) keepRun() {
	v.keeping.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), keepRunTimeout)
		defer cancel()
		if err := v.deps.Tools.KeepRun(ctx, v.toolContext); err != nil {
			v.deps.Log.Warn("the workspace does not keep a run that is handed over", "run_id", v.start.RunID, "error", err)
		}
	})
}

// keepRunTimeout is how long the workspace may take to answer.
const keepRunTimeout = 5 * time.Second

// leaveWorkspace tells the workspace that the run is over.
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

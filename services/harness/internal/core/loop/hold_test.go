package loop

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
)

// The workspace holds a run from its start until its last call has ended, also after a cancel. No tool is called
// before the hold.
func TestTheWorkspaceKnowsTheRun(t *testing.T) {
	for name, cut := range map[string]bool{"completed": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, wants(call("r", "file.read", "{}")), says("Done."))
				b.tools.holding = make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls := 0
				b.tools.run["file.read"] = func(ctx context.Context, _ string) (string, error) {
					calls++
					held := func() bool {
						b.tools.mu.Lock()
						defer b.tools.mu.Unlock()
						return slices.Equal(b.tools.held, []string{"run1"})
					}
					if !held() {
						t.Error("a tool was called of a run that the workspace does not know")
					}
					if cut {
						cancel()
						time.Sleep(time.Second) // time that the cancelled call takes to end
						if !held() {
							t.Error("the workspace was told of the run's end before its last call had ended")
						}
						return "", ctx.Err()
					}
					return "{}", nil
				}
				done := make(chan contract.Finished)
				go func() { done <- b.run(ctx) }()
				synctest.Wait()
				if calls != 0 || len(b.model.requests) != 1 {
					t.Errorf("got %d calls and %d requests before the run was known, want 0 and 1", calls, len(b.model.requests))
				}
				close(b.tools.holding)
				fin := <-done
				if want := map[bool]contract.Outcome{
					false: contract.Completed, true: contract.Cancelled,
				}[cut]; fin.Outcome != want {
					t.Errorf("got %v, want %v", fin.Outcome, want)
				}
				if len(b.tools.held) != 0 {
					t.Errorf("%v is held after the end", b.tools.held)
				}
			})
		})
	}
}

// Events of the run's debug sessions are relayed in order, and never after the run's end.
func TestDebugSessionsAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, wants(call("r", "file.read", "{}")), says("Done."))
	tell := func(id string) {
		b.tools.mu.Lock()
		told := b.tools.tell
		b.tools.mu.Unlock()
		told(contract.DebugEvent{ID: id})
	}
	b.tools.run["file.read"] = func(context.Context, string) (string, error) {
		tell("first")
		tell("second")
		return "{}", nil
	}
	if fin := b.run(t.Context()); fin.Outcome != contract.Completed {
		t.Fatalf("got %v", fin)
	}
	tell("late")
	if got := of[contract.DebugEvent](b.sink); len(got) != 2 || got[0].ID != "first" || got[1].ID != "second" {
		t.Errorf("told %v", got)
	}
}

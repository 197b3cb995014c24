package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// locking holds the paths that a call changes while its tool runs.
func locking(held *locks, wait time.Duration) behaviour {
	return func(_ *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			own := ordered(changed(call))
			release, err := held.acquire(ctx, own, wait)
			if err != nil {
				return tool.Result{}, err
			}
			defer release()
			call.Hold = func(ctx context.Context, list ...paths.Path) (func(), error) {
				more := slices.DeleteFunc(ordered(list), func(p paths.Path) bool {
					return slices.ContainsFunc(own, func(o paths.Path) bool { return o.Abs() == p.Abs() })
				})
				return held.acquire(ctx, more, wait)
			}
			call.Acted = true
			return next.Run(ctx, call)
		}}
	}
}

// Hold holds paths for a change outside of calls, as calls hold theirs. It fails with file_busy.
func (d *Dispatcher) Hold(ctx context.Context, list ...paths.Path) (release func(), err error) {
	return d.held.acquire(ctx, ordered(list), d.opts.LockWait)
}

// finishing completes results after the paths of their calls are released.
func finishing(_ *tool.Entry, next tool.Tool) tool.Tool {
	return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
		result, err := next.Run(ctx, call)
		if err != nil {
			return result, err
		}
		return call.Finish(ctx, result)
	}}
}

// changed returns the paths that a call needs exclusively.
func changed(call *tool.Call) []paths.Path {
	var list []paths.Path
	i := 0
	for _, need := range call.Needs {
		if need.Kind != tool.FS {
			continue
		}
		if need.Alone {
			list = append(list, call.Paths[i])
		}
		i++
	}
	return list
}

// ordered returns the paths, each once, in an order common to all calls, so that no two calls wait for each other.
func ordered(list []paths.Path) []paths.Path {
	if len(list) < 2 {
		return slices.Clone(list)
	}
	list = slices.SortedFunc(slices.Values(list), func(a, b paths.Path) int { return strings.Compare(a.Abs(), b.Abs()) })
	return slices.CompactFunc(list, func(a, b paths.Path) bool { return a.Abs() == b.Abs() })
}

// locks are the paths that are held, by real path.
type locks struct {
	mu   sync.Mutex // guards held
	held map[string]*lock
}

type lock struct {
	turn  chan struct{} // holds a token while the path is held
	users int           // holders and waiters
}

func newLocks() *locks { return &locks{held: map[string]*lock{}} }

// acquire takes all locks of an ordered list or none. It waits at most wait for all together, then fails with
// file_busy.
func (l *locks) acquire(ctx context.Context, list []paths.Path, wait time.Duration) (release func(), err error) {
	if len(list) == 0 {
		return func() {}, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var names []string
	release = func() {
		for _, name := range names {
			l.leave(name, true)
		}
	}
	for _, p := range list {
		name := p.Abs()
		select {
		case l.enter(name).turn <- struct{}{}:
			names = append(names, name)
			continue
		case <-timer.C:
			err = fault.New(fault.FileBusy, "Another call is changing %s and did not finish within %s.", p.Show, wait).
				With("path", p.Show)
		case <-ctx.Done():
			err = ctx.Err()
		}
		l.leave(name, false)
		release()
		return nil, err
	}
	return release, nil
}

func (l *locks) enter(name string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[name]
	if k == nil {
		k = &lock{turn: make(chan struct{}, 1)}
		l.held[name] = k
	}
	k.users++
	return k
}

func (l *locks) leave(name string, holder bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.held[name]
	if holder {
		<-k.turn
	}
	if k.users--; k.users == 0 {
		delete(l.held, name)
	}
}

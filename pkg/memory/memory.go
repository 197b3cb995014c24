// Package memory keeps a process's memory small: it sets a soft limit, and returns free memory to the system after a
// burst.
//
// Go's collector lets the heap grow to twice the live size before it runs, and runs again only after as much was
// allocated again. A process that becomes idle after eight answers of 12 MB keeps all of it for minutes. [Keep] makes
// the collector run more often near the limit, and once more when the process has become idle.
package memory

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// DefaultLimit is the soft limit of the Go heap and its overhead in bytes.
const DefaultLimit = 256 << 20

const (
	// interval is the interval of checks.
	interval = 2 * time.Second
	// quiet is the maximum number of bytes that an idle process allocates in an interval.
	quiet = 4 << 20
	// worthwhile is the minimum number of bytes allocated between two returns of memory.
	worthwhile = 32 << 20
	// headroom is the minimum distance of the limit above the live heap, as a fraction of the heap; with less the
	// collector would run all the time.
	headroom = 0.25
	// again is the number of idle checks after which memory is returned a second time, when caches have expired.
	again = 6
)

// Keep keeps the process's memory small until ctx ends. limit is the soft limit in bytes, 0 for [DefaultLimit]. The
// limit rises with the live heap, so that it never blocks the process. If the environment sets GOMEMLIMIT, the operator
// has decided, and Keep only waits for ctx. Only one call may run in a process at a time.
func Keep(ctx context.Context, limit int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return
	}
	if limit <= 0 {
		limit = DefaultLimit
	}
	before := debug.SetMemoryLimit(limit)
	defer debug.SetMemoryLimit(before)
	giveBack() // frees the garbage of the start
	k := keeper{limit: limit, now: limit}
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		next, idle := k.look(samples[0].Value.Uint64(), samples[1].Value.Uint64())
		if next != k.now {
			k.now = next
			debug.SetMemoryLimit(next)
		}
		if idle {
			giveBack()
		}
	}
}

// giveBack runs the collector and returns free memory to the system.
func giveBack() {
	runtime.GC() // pools release their values at the second collection
	debug.FreeOSMemory()
	dropImage()
}

// keeper decides for Keep.
type keeper struct {
	limit, now int64
	last       uint64 // bytes allocated until the last check
	given      uint64 // bytes allocated until memory was last returned after a burst
	looks      int    // idle checks since then, up to again
}

// look takes the bytes that were live after the last collection and the bytes allocated since the start. It returns the
// new limit, and whether memory is to be returned now.
func (k *keeper) look(live, allocated uint64) (limit int64, idle bool) {
	limit = max(k.limit, int64(min(float64(live)*(1+headroom), math.MaxInt64/2)))
	silent := allocated-k.last < quiet
	k.last = allocated
	switch {
	case silent && allocated-k.given >= worthwhile:
		k.given, k.looks = allocated, 0
		return limit, true
	case silent && k.given > 0 && k.looks < again:
		k.looks++
		return limit, k.looks == again
	}
	return limit, false
}

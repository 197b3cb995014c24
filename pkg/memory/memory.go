// Package memory keeps a process's memory small: a soft limit that a burst does not outgrow for long, and memory
// that goes back to the system when the burst is over.
//
// Go's collector lets the heap grow to twice the live size before it runs, and runs again only when that much was
// allocated once more. After eight answers of 12 MB a process that then falls silent keeps all of it for minutes.
// [Keep] has the collector work harder near the limit, and once more when the process has become quiet.
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
	// interval is the time between two looks.
	interval = 2 * time.Second
	// quiet is how many bytes an idle process allocates in an interval.
	quiet = 4 << 20
	// worthwhile is how many bytes must have been allocated since memory was last given back.
	worthwhile = 32 << 20
	// headroom is the least distance of the limit above the live heap, as a part of it: with less the collector
	// would never rest.
	headroom = 0.25
	// again is how many quiet looks after memory was given back it is once more: caches that expire by time are let
	// go then.
	again = 6
)

// Keep keeps the process's memory small until ctx ends. limit is the soft limit in bytes, 0 for [DefaultLimit]. The
// limit rises with the live heap: a process is never held up by it. Keep only waits for ctx if the environment sets
// GOMEMLIMIT: the operator has decided. One call at a time may be under way in a process.
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
	giveBack() // garbage of the start
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

// giveBack collects, and returns free memory to the system.
func giveBack() {
	runtime.GC() // pools let go of their values at the second collection
	debug.FreeOSMemory()
	dropImage()
}

// keeper makes Keep's decisions.
type keeper struct {
	limit, now int64
	last       uint64 // bytes allocated up to the last look
	given      uint64 // and up to when memory was last given back after a burst
	looks      int    // quiet ones since then, up to again
}

// look takes the bytes that were live after the last collection and those allocated since the start. It returns the
// limit from now on, and whether this is the time to give memory back.
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

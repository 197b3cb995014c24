package memory

import (
	"context"
	"testing"
)

const mb = 1 << 20

// Memory is returned after a burst, a second time when caches have expired, and not again before another burst.
func TestMemoryIsGivenBackOnceItIsQuiet(t *testing.T) {
	t.Parallel()
	k := keeper{limit: 256 * mb, now: 256 * mb}
	allocated := uint64(0)
	for i, step := range []struct {
		more uint64
		idle bool
	}{
		{10 * mb, false},
		{1 * mb, false}, // too little to return
		{500 * mb, false},
		{300 * mb, false}, // busy
		{1 * mb, true},
		{1 * mb, false},
		{0, false},
		{0, false},
		{0, false},
		{0, false},
		{0, true}, // idle
		{0, false},
		{1 * mb, false},
		{40 * mb, false},
		{0, true},
	} {
		allocated += step.more
		if _, idle := k.look(20*mb, allocated); idle != step.idle {
			t.Errorf("look %d: idle is %v, want %v", i, idle, step.idle)
		}
	}
}

// The limit rises for a process that uses more than the limit allows, and falls back afterwards.
func TestTheLimitGivesWayToWhatIsInUse(t *testing.T) {
	t.Parallel()
	k := keeper{limit: 256 * mb, now: 256 * mb}
	for _, c := range []struct{ live, limit int64 }{{20 * mb, 256 * mb}, {400 * mb, 500 * mb}, {30 * mb, 256 * mb}} {
		if limit, _ := k.look(uint64(c.live), 0); limit != c.limit {
			t.Errorf("with %d bytes live the limit is %d, want %d", c.live, limit, c.limit)
		}
	}
}

// Keep ends with its context, and the program still works after its pages were released.
func TestKeepEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); Keep(ctx, 0) }()
	giveBack()
	cancel()
	<-done
}

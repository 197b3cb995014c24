package retry

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// began returns the start of each attempt, counted from the first, with at most n attempts.
func began(ctx context.Context, p Pauses, n int) (times []time.Duration) {
	start := time.Now()
	for try := range p.Each(ctx) {
		if try != len(times) {
			panic("tries are not counted from 0")
		}
		times = append(times, time.Since(start))
		if len(times) == n {
			break
		}
	}
	return times
}

// Pauses double from the first to the longest and stay there.
func TestPausesDouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := began(t.Context(), Pauses{First: 10 * ms, Last: 35 * ms}, 6)
		want := []time.Duration{0, 10 * ms, 30 * ms, 65 * ms, 100 * ms, 135 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("tries began at %v, want %v", got, want)
		}
	})
}

// The first attempt is always made; each limit ends the attempts after it.
func TestLimitsEndTries(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		p    Pauses
		want int
	}{
		"tries":                     {Pauses{First: ms, Last: ms, Tries: 3}, 3},
		"one try":                   {Pauses{First: ms, Last: ms, Tries: 1}, 1},
		"time":                      {Pauses{First: 10 * ms, Last: 10 * ms, Within: 25 * ms}, 4},
		"time shorter than a pause": {Pauses{First: time.Hour, Last: time.Hour, Within: ms}, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if got := len(began(t.Context(), c.p, 100)); got != c.want {
					t.Errorf("got %d tries, want %d", got, c.want)
				}
			})
		})
	}
}

// The end of the context ends a pause at once; an ended context allows one attempt.
func TestContextEndsPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*ms)
		defer cancel()
		start := time.Now()
		if got := len(began(ctx, Pauses{First: 10 * ms, Last: time.Hour}, 100)); got != 2 {
			t.Errorf("got %d tries, want 2", got)
		}
		if took := time.Since(start); took != 15*ms {
			t.Errorf("the tries ended after %v, want 15ms", took)
		}
		if got := len(began(ctx, Pauses{First: ms, Last: ms}, 100)); got != 1 {
			t.Errorf("got %d tries after the context's end, want 1", got)
		}
		if Wait(ctx, 0) {
			t.Error("Wait says that an ended context goes on")
		}
	})
}

// Pauses with Spread differ from the plain pause by at most half of it, and from each other.
func TestSpread(t *testing.T) {
	t.Parallel()
	p := Pauses{First: 100 * ms, Last: 100 * ms, Spread: true}
	seen := map[time.Duration]bool{}
	for range 100 {
		pause := p.varied(3)
		seen[pause] = true
		if pause < 50*ms || pause >= 150*ms {
			t.Fatalf("got a pause of %v, want one of [50ms, 150ms)", pause)
		}
	}
	if len(seen) < 2 {
		t.Error("all pauses are equal")
	}
}

// The pause after any number of attempts neither overflows nor exceeds the longest.
func TestAfterIsBounded(t *testing.T) {
	t.Parallel()
	for p, want := range map[Pauses]time.Duration{
		{First: ms, Last: time.Second}:          time.Second,
		{First: ms, Last: math.MaxInt64}:        math.MaxInt64,
		{First: 2 * time.Second, Last: ms}:      ms,
		{First: time.Second, Last: time.Second}: time.Second,
		{}:                                      0,
	} {
		if got := p.After(math.MaxInt); got != want {
			t.Errorf("%+v: got %v, want %v", p, got, want)
		}
	}
}

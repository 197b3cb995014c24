// Package retry makes the pauses between attempts: they double from a first to a longest one.
//
//	for range retry.Pauses{First: 10 * time.Millisecond, Last: time.Second}.Each(ctx) {
//		if err := publish(); err == nil {
//			return nil
//		}
//	}
//	return errClosed // ctx has ended
//
// The caller's loop decides which errors are final; see ADR 0033.
package retry

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"
)

// Pauses are the pauses between the attempts of one operation.
type Pauses struct {
	// First is the pause after the first attempt; each further pause is twice as long, up to Last.
	First, Last time.Duration
	// Tries is the maximum number of attempts; 0 means no limit.
	Tries int
	// Within is the time after which no further pause begins; 0 means no limit.
	Within time.Duration
	// Spread varies each pause by up to half of it, so that processes that failed together do not retry together.
	Spread bool
}

// Each yields the number of each attempt, from 0, and pauses before the next. The first attempt is always made; the
// sequence ends with ctx and at the limits of p.
func (p Pauses) Each(ctx context.Context) iter.Seq[int] {
	return func(yield func(int) bool) {
		begun := time.Now()
		for try := 0; yield(try); try++ {
			if try+1 == p.Tries || p.Within > 0 && time.Since(begun) >= p.Within || !Wait(ctx, p.varied(try)) {
				return
			}
		}
	}
}

// After returns the pause after an attempt, which counts from 0, without variation.
func (p Pauses) After(try int) time.Duration {
	pause := p.First
	for ; try > 0 && pause > 0; try-- {
		if pause > p.Last/2 {
			return p.Last
		}
		pause *= 2
	}
	return min(pause, p.Last)
}

func (p Pauses) varied(try int) time.Duration {
	pause := p.After(try)
	if p.Spread && pause > 0 {
		pause = pause/2 + rand.N(pause)
	}
	return pause
}

// Wait pauses for d. It reports false if ctx ends first.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

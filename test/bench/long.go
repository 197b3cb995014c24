package bench

import (
	"context"
	"fmt"
	"time"
)

// A long answer has 384 deltas of 32 KiB, 12 MB in total.
const (
	longAnswers  = 8
	longDeltas   = 384
	longPadding  = 32 << 10
	longInterval = 5 * time.Millisecond
	longRest     = 20 * time.Second // the time from the last answer to the second measurement of the memory
)

// measureLongAnswers measures the memory of eight answers of 12 MB at once, and the part of it that remains afterwards.
func measureLongAnswers(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		w.model.set(plan{deltas: longDeltas, padding: longPadding, interval: longInterval})
		if err := d.resetPeak(); err != nil {
			return nil, err
		}
		results, wall, err := d.stream(ctx, longAnswers)
		if err != nil {
			return nil, err
		}
		for i, r := range results {
			if want := longDeltas * longPadding; len(r.text) < want {
				return nil, fmt.Errorf("session %d got %d bytes of an answer of %d", i, len(r.text), want)
			}
		}
		peak, err := d.memory("VmHWM")
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(longRest):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		after, err := d.memory("VmRSS")
		if err != nil {
			return nil, err
		}
		return []Figure{
			{Name: "long-answers/peak-memory", Value: mb(peak), Unit: "MB", Target: 600},
			{Name: "long-answers/memory-after", Value: mb(after), Unit: "MB", Target: 150},
			{Name: "long-answers/wall", Value: wall.Seconds(), Unit: "s"},
		}, nil
	})
}

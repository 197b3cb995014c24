package bench

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// The number of sessions that are measured while others flood, and of sockets that flood.
const (
	watched  = 20
	flooders = 10
)

// The number of frames that a flooding socket sends in each interval, twenty times its limit. Without an interval, the
// sender's own use of the machine would be measured.
const (
	floodFrames = 20
	floodEvery  = 10 * time.Millisecond
)

// measureFlood streams in 20 sessions at a fixed rate, while 10 sockets of other sessions send too many frames, and
// attach again when the daemon closes them. It measures the delay of the deltas. The floor is the same without the
// flood.
func measureFlood(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		w.model.set(plan{deltas: deltas, interval: pace})
		lags := func() (lag []time.Duration, err error) {
			results, _, err := d.stream(ctx, watched)
			for _, r := range results {
				lag = append(lag, r.lag...)
			}
			return lag, errors.Join(err, exact(results))
		}
		if _, err := lags(); err != nil { // fills caches
			return nil, err
		}
		alone, err := lags()
		if err != nil {
			return nil, err
		}
		flooding, stop := context.WithCancel(ctx)
		defer stop()
		var flood errgroup.Group
		for range flooders {
			id, err := d.session(ctx)
			if err != nil {
				return nil, err
			}
			flood.Go(func() error { d.flood(flooding, id); return nil })
		}
		beside, err := lags()
		stop()
		if err := errors.Join(err, flood.Wait()); err != nil {
			return nil, err
		}
		return []Figure{
			{
				Name: "flood/delivery/median", Value: ms(percentile(beside, 50)), Spread: spread(beside), Unit: "ms",
				Floor: ms(percentile(alone, 50)),
			},
			{
				Name: "flood/delivery/p99", Value: ms(percentile(beside, 99)), Unit: "ms", Floor: ms(percentile(alone, 99)),
				Target: 20,
			},
		}, nil
	})
}

// flood sends pings on a session's sockets until ctx ends. The daemon should close them.
func (d *daemon) flood(ctx context.Context, session string) {
	for ctx.Err() == nil {
		socket, err := d.client.Attach(ctx, session, map[string]int64{}, true)
		if err != nil {
			continue
		}
		var reader errgroup.Group
		reader.Go(func() error {
			for {
				if _, err := socket.Read(); err != nil {
					return err
				}
			}
		})
		for n := 1; ctx.Err() == nil && socket.Send("ping", map[string]any{}) == nil; n++ {
			if n%floodFrames == 0 {
				time.Sleep(floodEvery)
			}
		}
		socket.Close()
		_ = reader.Wait() // it ends with the socket
	}
}

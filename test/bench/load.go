package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kaged.dev/pkg/client"
)

const (
	sessions      = 100
	deltas        = 200
	pace          = 10 * time.Millisecond
	idleSessions  = 500
	parallelSetup = 16
)

// result is the measured result of one run.
type result struct {
	begun      time.Time       // the time when the message was posted
	firstDelta time.Duration   // the time since the post
	text       string          // all deltas
	lag        []time.Duration // the times from the write of each delta to its arrival
}

// follow posts a message on its own socket and reads frames to the end of the run.
func (d *daemon) follow(ctx context.Context, session, text string) (result, error) {
	socket, err := d.client.Attach(ctx, session, map[string]int64{}, false)
	if err != nil {
		return result{}, err
	}
	defer socket.Close()
	begun := time.Now()
	if err := d.post(ctx, session, text); err != nil {
		return result{}, err
	}
	return read(socket, begun)
}

// read reads frames until the session is idle again, and checks their order.
func read(socket *client.Socket, begun time.Time) (result, error) {
	r := result{begun: begun}
	var text strings.Builder
	last := map[string]int64{}
	var written, idle bool // the two channels end in either order
	for !written || !idle {
		f, err := socket.Read()
		if err != nil {
			return r, err
		}
		now := time.Now()
		if f.Channel == "control" || f.Seq == 0 {
			continue
		}
		if prev, seen := last[f.Channel]; seen && f.Seq != prev+1 {
			return r, fmt.Errorf("%s frame %d came after %d", f.Channel, f.Seq, prev)
		}
		last[f.Channel] = f.Seq
		switch f.Type {
		case "message.delta":
			delta, err := deltaOf(f)
			if err != nil {
				return r, err
			}
			if r.firstDelta == 0 {
				r.firstDelta = now.Sub(begun)
			}
			text.WriteString(delta)
			for stamp := range strings.FieldsSeq(delta) {
				if n, err := strconv.ParseInt(stamp, 10, 64); err == nil {
					r.lag = append(r.lag, now.Sub(time.Unix(0, n)))
				}
			}
		case "run.ended":
			if !bytes.Contains(f.Payload, []byte(`"completed"`)) {
				return r, fmt.Errorf("a run ended so: %s", f.Payload)
			}
		case "message.end":
			written = true
		case "session.state":
			idle = bytes.Contains(f.Payload, []byte(`"idle"`))
		}
	}
	r.text = text.String()
	return r, nil
}

// open creates n sessions with attached sockets.
func (d *daemon) open(ctx context.Context, n int) (ids []string, sockets []*client.Socket, err error) {
	ids, sockets = make([]string, n), make([]*client.Socket, n)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelSetup)
	for i := range n {
		group.Go(func() (err error) {
			if ids[i], err = d.session(gctx); err == nil {
				sockets[i], err = d.client.Attach(ctx, ids[i], map[string]int64{}, false)
			}
			return err
		})
	}
	return ids, sockets, group.Wait()
}

func closeAll(sockets []*client.Socket) {
	for _, s := range sockets {
		if s != nil {
			s.Close()
		}
	}
}

// stream makes every session stream at once and returns the result of each and the total time.
func (d *daemon) stream(ctx context.Context, n int) ([]result, time.Duration, error) {
	ids, sockets, err := d.open(ctx, n)
	defer closeAll(sockets)
	if err != nil {
		return nil, 0, err
	}
	results := make([]result, n)
	group, gctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for i := range n {
		group.Go(func() (err error) {
			if err := d.post(gctx, ids[i], "go"); err != nil {
				return err
			}
			results[i], err = read(sockets[i], begun)
			return err
		})
	}
	err = group.Wait()
	return results, time.Since(begun), err
}

// exact reports an error unless every session's text has every delta, in order.
func exact(results []result) error {
	for i, r := range results {
		stamps := strings.Fields(r.text)
		if len(stamps) != deltas {
			return fmt.Errorf("session %d got %d deltas of %d", i, len(stamps), deltas)
		}
		for j := 1; j < len(stamps); j++ {
			if stamps[j] < stamps[j-1] {
				return fmt.Errorf("session %d got delta %d out of order", i, j)
			}
		}
	}
	return nil
}

// measureBurst measures 100 sessions that stream 200 deltas each at once. The floor is reading the same streams without
// kaged.
func measureBurst(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		w.model.set(plan{deltas: deltas})
		if _, _, err := d.stream(ctx, sessions); err != nil { // fills caches
			return nil, err
		}
		if err := d.resetPeak(); err != nil {
			return nil, err
		}
		before, err := d.cpu()
		if err != nil {
			return nil, err
		}
		results, wall, err := d.stream(ctx, sessions)
		if err != nil {
			return nil, err
		}
		if err := exact(results); err != nil {
			return nil, err
		}
		after, err := d.cpu()
		if err != nil {
			return nil, err
		}
		peak, err := d.memory("VmHWM")
		if err != nil {
			return nil, err
		}
		floor, err := w.relay(ctx)
		if err != nil {
			return nil, err
		}
		return []Figure{
			{
				Name: "burst/wall", Value: wall.Seconds(), Unit: "s", Floor: floor.Seconds(),
				Quoted: "mastra 0.96, codex 4.9, opencode 12.7", Target: 1.5,
			},
			{Name: "burst/cpu", Value: (after - before).Seconds(), Unit: "cpu-s", Target: 2.0},
			{
				Name: "burst/peak-memory", Value: float64(peak) / 1e6, Unit: "MB", Quoted: "mastra 361, codex 424, opencode 1069",
				Target: 300,
			},
		}, nil
	})
}

// relay reads the same number of the model's streams at once, without kaged.
func (w *world) relay(ctx context.Context) (time.Duration, error) {
	var group errgroup.Group
	begun := time.Now()
	for range sessions {
		group.Go(func() error {
			resp, err := askModel(ctx, w.model.url)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
				_ = sc.Bytes()
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begun), err
}

// measurePace makes 100 sessions stream at once with 10 ms between deltas, and measures the delay of each delta, and
// the CPU time of all.
func measurePace(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		w.model.set(plan{deltas: deltas, interval: pace})
		before, err := d.cpu()
		if err != nil {
			return nil, err
		}
		sampled, done := context.WithCancel(ctx)
		defer done()
		var peak treeMemory
		var sampler errgroup.Group
		sampler.Go(func() (err error) { peak, err = d.peakMemory(sampled); return err })
		results, _, err := d.stream(ctx, sessions)
		done()
		if err := errors.Join(err, sampler.Wait()); err != nil {
			return nil, err
		}
		after, err := d.cpu()
		if err != nil {
			return nil, err
		}
		if err := exact(results); err != nil {
			return nil, err
		}
		var lag []time.Duration
		for _, r := range results {
			lag = append(lag, r.lag...)
		}
		bare, err := w.bareStreams(ctx)
		if err != nil {
			return nil, err
		}
		const floor = "floor: the same streams and five commits a session, with bare JetStream, Postgres and sockets"
		return []Figure{
			{Name: "pace/delivery/median", Value: ms(percentile(lag, 50)), Spread: spread(lag), Unit: "ms"},
			{
				Name: "pace/delivery/p99", Value: ms(percentile(lag, 99)), Unit: "ms",
				Quoted: "mastra 30, codex 1339, opencode 238", Target: 20,
			},
			{
				Name: "pace/cpu", Value: (after - before).Seconds(), Unit: "cpu-s", Floor: bare.cpu.Seconds(),
				Quoted: "mastra 2.3", Target: 1.5, Note: floor,
			},
			{
				Name: "pace/tree-rss", Value: mb(peak.rss), Unit: "MB", Floor: mb(bare.memory.rss),
				Quoted: "mastra 347 to 408, codex 371 to 476", Target: 300,
			},
			{Name: "pace/tree-pss", Value: mb(peak.pss), Unit: "MB", Floor: mb(bare.memory.pss)},
		}, nil
	})
}

// measureIdle measures the memory of an idle session with an open socket.
func measureIdle(ctx context.Context, w *world) ([]Figure, error) {
	return w.with(ctx, func(d *daemon) ([]Figure, error) {
		_, warm, err := d.open(ctx, 20)
		defer closeAll(warm)
		if err != nil {
			return nil, err
		}
		before, err := d.memory("VmRSS")
		if err != nil {
			return nil, err
		}
		_, sockets, err := d.open(ctx, idleSessions)
		defer closeAll(sockets)
		if err != nil {
			return nil, err
		}
		after, err := d.memory("VmRSS")
		if err != nil {
			return nil, err
		}
		return []Figure{
			{Name: "idle/memory-per-session", Value: float64(after-before) / idleSessions / 1e3, Unit: "KB", Target: 100},
		}, nil
	})
}

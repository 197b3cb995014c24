package socket

import (
	"bytes"
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/gateway/internal/core/channel"
)

// A replay gets its burst at once and the rest at the rate, for both channels together. Live frames are not delayed
// by it.
func TestReplayIsPaced(t *testing.T) {
	t.Parallel()
	const size, batches = 1000, 40
	for name, c := range map[string]struct {
		rate, burst int
		want        time.Duration
	}{
		"within the burst":               {1000, 2 * size * batches, 0},
		"past the burst":                 {10_000, 20_000, 6 * time.Second},
		"a burst smaller than a batch":   {10_000, size / 2, 7950 * time.Millisecond},
		"without a limit":                {0, 0, 0},
		"a byte a second past the burst": {1, 2*size*batches - 3, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stored := func(_ context.Context, _, _ string, from int64) iter.Seq2[channel.Batch, error] {
					return func(yield func(channel.Batch, error) bool) {
						for seq := from; seq <= batches; seq++ {
							if !yield(channel.Batch{First: seq, Count: 1, Data: bytes.Repeat([]byte("x"), size)}, nil) {
								return
							}
						}
					}
				}
				limits := Limits{Replay: c.rate, ReplayBurst: c.burst, Output: 8 * size * batches, Events: 8 * size * batches}
				s := newSocket(New(Deps{Stored: stored, Limits: limits}), "01S", ident.Caller{})
				defer s.cancel()
				for _, lane := range []int{laneOutput, laneEvents} {
					s.lanes[lane].splice.Published(batches)
					s.lanes[lane].splice.Resume(0)
				}
				began := time.Now()
				if err := s.fillFrom(laneOutput, 1); err != nil {
					t.Fatal(err)
				}
				s.lanes[laneOutput].splice.Filled()
				s.live(laneOutput, channel.Batch{First: batches + 1, Count: 1, Data: bytes.Repeat([]byte("x"), size)})
				live := s.queue.Waiting(laneOutput) - size*batches
				if err := s.fillFrom(laneEvents, 1); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(began).Round(10 * time.Millisecond); got != c.want {
					t.Errorf("got %s for %d bytes, want %s", got, 2*size*batches, c.want)
				}
				if live != size || s.queue.Waiting(laneEvents) != size*batches {
					t.Errorf("got %d live and %d stored bytes, want %d and %d", live, s.queue.Waiting(laneEvents), size, size*batches)
				}
			})
		})
	}
}

// A replay that waits for its rate ends with its socket.
func TestPacedReplayEndsWithItsSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stored := func(context.Context, string, string, int64) iter.Seq2[channel.Batch, error] {
			return func(yield func(channel.Batch, error) bool) {
				for seq := int64(1); yield(channel.Batch{First: seq, Count: 1, Data: []byte("xxxx")}, nil); seq++ {
				}
			}
		}
		s := newSocket(New(Deps{Stored: stored, Limits: Limits{Replay: 1, ReplayBurst: 1, Output: 1 << 20}}), "01S",
			ident.Caller{})
		s.lanes[laneOutput].splice.Published(1 << 20)
		s.lanes[laneOutput].splice.Resume(0)
		ended := make(chan error)
		go func() { ended <- s.fillFrom(laneOutput, 1) }()
		time.Sleep(time.Minute)
		s.cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v, want no error", err)
		}
	})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/internal/core/channel"
)

// wire is a channel with its stored frames and the live batches that wait for a reader.
type wire struct {
	published int64 // the number of the last frame
	stored    int64 // the number of the last frame that can be read from the store
	expired   int64 // the number of the last frame that has expired
	away      bool
	queued    []channel.Batch
	missed    bool
}

func (w *wire) batch(first, last int64) channel.Batch {
	var frames []string
	for n := first; n <= last; n++ {
		frames = append(frames, fmt.Sprintf(`{"channel":"output","seq":%d,"type":"message.delta","payload":{}}`, n))
	}
	return channel.Batch{First: first, Count: len(frames), Epoch: 1, Data: []byte(strings.Join(frames, "\n"))}
}

// Take implements Watch.
func (w *wire) Take() (map[string][]channel.Batch, bool, bool) {
	queued, missed := w.queued, w.missed
	w.queued, w.missed = nil, false
	return map[string][]channel.Batch{"output": queued}, missed, false
}

func (w *wire) Published() <-chan struct{} { return nil }
func (w *wire) Forget()                    {}

func (w *wire) read(_ context.Context, _, _ string, from int64) iter.Seq2[channel.Batch, error] {
	return func(yield func(channel.Batch, error) bool) {
		switch {
		case w.away:
			yield(channel.Batch{}, fault.New(fault.Unavailable, "The store is away."))
			return
		case from <= w.expired && w.expired < w.stored:
			yield(channel.Batch{}, channel.ErrGap)
			return
		}
		for n := from; n <= w.stored; n += 2 {
			if !yield(w.batch(n, min(n+1, w.stored)), nil) {
				return
			}
		}
	}
}

var numbered = regexp.MustCompile(`(?m)^id: output:(\d+)$`)

// A reader receives each frame after its position once and in order, even if live batches are dropped, frames are
// stored late, or the store is unavailable for a while. A reader that needs expired frames is told so.
func TestEventsOnceAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &wire{published: rapid.Int64Range(0, 9).Draw(t, "published")}
		w.stored = w.published
		p := &place{name: "output", resumes: rapid.Bool().Draw(t, "resumes")}
		begins := w.published // the number of the last frame before the reader's first
		if p.resumes {
			p.seen = rapid.Int64Range(0, w.published).Draw(t, "seen")
			begins = p.seen
		}
		next := int64(0)
		if w.stored > 0 {
			next = w.stored + 1
		}
		answer := httptest.NewRecorder()
		e := &events{
			w: answer, control: http.NewResponseController(answer), session: "s", at: []*place{p}, watch: w,
			stored: w.read, missing: time.Hour,
		}
		if p.start(next) == channel.Lost {
			t.Fatal("got a lost reader at the start")
		}
		lost := false
		drain := func() {
			_, err := e.drain(t.Context())
			switch {
			case errors.Is(err, channel.ErrGap):
				lost = true
			case err != nil && !w.away:
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			steps := []string{"publish", "publish", "drop", "store", "away", "drain", "expire"}
			switch rapid.SampledFrom(steps).Draw(t, "step") {
			case "publish":
				first := w.published + 1
				w.published += rapid.Int64Range(0, 3).Draw(t, "count")
				w.queued = append(w.queued, w.batch(first, w.published))
			case "drop":
				w.queued, w.missed = nil, true
			case "store":
				w.stored = w.published
			case "away":
				w.away = !w.away
			case "expire":
				w.expired = rapid.Int64Range(w.expired, w.stored).Draw(t, "expired")
			case "drain":
				drain()
			}
			if lost {
				break
			}
		}
		w.away, w.stored = false, w.published
		for range 3 {
			if !lost {
				drain()
			}
		}
		var got, want []string
		for _, m := range numbered.FindAllStringSubmatch(answer.Body.String(), -1) {
			got = append(got, m[1])
		}
		for n := begins + 1; n <= w.published; n++ {
			want = append(want, fmt.Sprint(n))
		}
		switch {
		case lost && w.expired > begins && slices.Equal(got, want[:len(got)]):
		case lost || !slices.Equal(got, want):
			t.Fatalf("got %v, lost %v, want %v; expired to %d", got, lost, want, w.expired)
		}
	})
}

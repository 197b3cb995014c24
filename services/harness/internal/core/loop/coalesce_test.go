package loop

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/contract"
)

// crowd opens n streams of one beat. moments has the time of each delta of each stream; it is read after close.
func crowd(n int) (streams []*coalescer, moments [][]timed) {
	began := time.Now()
	beat := new(Beat)
	moments = make([][]timed, n)
	for i := range n {
		streams = append(streams, newCoalescer(beat, func(e contract.Event) error {
			d := e.(contract.Delta)
			moments[i] = append(moments[i], timed{time.Since(began), d.Thinking, d.Text})
			return nil
		}))
	}
	return streams, moments
}

func say(t *testing.T, c *coalescer, text string) {
	t.Helper()
	if err := c.add(false, text); err != nil {
		t.Fatal(err)
	}
}

// Among many streams the first piece of each is sent at once. Later pieces, which arrive a millisecond apart at
// different streams, are sent at one moment, at most five milliseconds later.
func TestManyStreamsSendTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams, moments := crowd(manyStreams)
		ms := time.Millisecond
		time.Sleep(20 * ms) // the clock of a bubble begins at a moment of the beat
		for _, c := range streams {
			say(t, c, "first ")
		}
		time.Sleep(20 * ms)
		for i := range 5 {
			time.Sleep(ms)
			say(t, streams[i], "a ")
			say(t, streams[i], "b")
		}
		time.Sleep(20 * ms)
		for _, c := range streams {
			_ = c.close()
		}
		first := timed{20 * ms, false, "first "}
		for i := range 4 {
			if d := cmp.Diff([]timed{first, {45 * ms, false, "a b"}}, moments[i]); d != "" {
				t.Errorf("stream %d: %s", i, d)
			}
		}
		// A piece at a moment itself waits for the next one.
		if d := cmp.Diff([]timed{first, {50 * ms, false, "a b"}}, moments[4]); d != "" {
			t.Error(d)
		}
	})
}

// A few streams do not wait for each other: a piece after a pause is sent at once. So are those of a stream that was
// one of many, once others have ended; a stream that is closed twice ends once.
func TestFewStreamsSendAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams, moments := crowd(manyStreams + 1)
		ms := time.Millisecond
		for _, c := range streams[2:] {
			_ = c.close()
			_ = c.close()
		}
		var want []timed
		for i := range 3 {
			say(t, streams[0], fmt.Sprint(i))
			want = append(want, timed{time.Duration(i) * 6 * ms, false, fmt.Sprint(i)})
			time.Sleep(6 * ms)
		}
		if err := streams[0].close(); err != nil {
			t.Fatal(err)
		}
		_ = streams[1].close()
		if d := cmp.Diff(want, moments[0]); d != "" {
			t.Error(d)
		}
		if left := streams[0].beat.streams.Load(); left != 0 {
			t.Errorf("%d streams are counted after the last one ended", left)
		}
	})
}

package channel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/services/gateway/internal/core/channel"
)

// batch returns the frames first to first+count-1 of an epoch. Each frame has its number and epoch as text.
func batch(first int64, count int, epoch int64) channel.Batch {
	frames := make([]string, count)
	for i := range frames {
		frames[i] = fmt.Sprintf("%d@%d", first+int64(i), epoch)
	}
	return channel.Batch{First: first, Count: count, Epoch: epoch, Data: []byte(strings.Join(frames, "\n"))}
}

func frames(b channel.Batch) []string {
	var list []string
	b.Frames(func(f []byte) bool { list = append(list, string(f)); return true })
	return list
}

// A batch can be cut at any frame, and it yields its frames unchanged.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := batch(5, 3, 1)
	if got := frames(b); !slices.Equal(got, []string{"5@1", "6@1", "7@1"}) {
		t.Errorf("frames %v", got)
	}
	if got := b.From(7); got.First != 7 || got.Count != 1 || string(got.Data) != "7@1" || got.Next() != 8 {
		t.Errorf("from 7: %+v", got)
	}
	if got := b.From(8); got.Count != 0 || len(got.Data) != 0 || len(frames(got)) != 0 {
		t.Errorf("from 8: %+v", got)
	}
	if got := b.From(3); got.First != 5 || got.Count != 3 {
		t.Errorf("from 3: %+v", got)
	}
}

// move is one method call on a splice.
type move func(*channel.Splice) (channel.Batch, channel.Verdict)

// step is a method call on a splice with the expected verdict and frames.
type step struct {
	what string
	do   move
	want channel.Verdict
	got  string
}

func only(f func(*channel.Splice) channel.Verdict) move {
	return func(s *channel.Splice) (channel.Batch, channel.Verdict) { return channel.Batch{}, f(s) }
}

func published(last int64) move {
	return only(func(s *channel.Splice) channel.Verdict { return s.Published(last) })
}

func resume(seen int64) move {
	return only(func(s *channel.Splice) channel.Verdict { return s.Resume(seen) })
}

func live(b channel.Batch) move {
	return func(s *channel.Splice) (channel.Batch, channel.Verdict) { return s.Live(b) }
}

func stored(b channel.Batch) move {
	return func(s *channel.Splice) (channel.Batch, channel.Verdict) { return s.Stored(b) }
}

var (
	begin   = only((*channel.Splice).Begin)
	filled  = only((*channel.Splice).Filled)
	giveUp  = only((*channel.Splice).GiveUp)
	suspect = only((*channel.Splice).Suspect)
	follow  = only(func(s *channel.Splice) channel.Verdict { s.Follow(); return channel.Nothing })
	ask     = only(func(s *channel.Splice) channel.Verdict { s.Ask(); return channel.Nothing })
	stop    = only(func(s *channel.Splice) channel.Verdict { s.Stop(); return channel.Nothing })
)

// spliceStories are sequences of steps, by the sentence that they prove.
var spliceStories = map[string][]step{
	"frames of an unsubscribed channel are dropped": {
		{"published", published(4), channel.Nothing, ""}, {"live", live(batch(5, 1, 1)), channel.Nothing, ""},
	},
	"live frames are delivered once and in order": {
		{"published", published(4), channel.Nothing, ""},
		{"follow", follow, channel.Nothing, ""},
		{"an old one", live(batch(3, 2, 1)), channel.Nothing, ""},
		{"one that overlaps", live(batch(4, 2, 1)), channel.Deliver, "5@1"},
		{"the next", live(batch(6, 2, 1)), channel.Deliver, "6@1 7@1"},
		{"again", live(batch(6, 2, 1)), channel.Nothing, ""},
		{"after unsubscribe", stop, channel.Nothing, ""},
		{"while unsubscribed", live(batch(8, 1, 1)), channel.Nothing, ""},
		{"after subscribe", follow, channel.Nothing, ""},
		{"the next again", live(batch(9, 1, 1)), channel.Deliver, "9@1"},
	},
	"a gap is filled before later frames are delivered": {
		{"follow", follow, channel.Nothing, ""},
		{"a gap", live(batch(3, 1, 1)), channel.Fill, ""},
		{"while it is filled", live(batch(4, 1, 1)), channel.Nothing, ""},
		{"stored", stored(batch(1, 2, 1)), channel.Deliver, "1@1 2@1"},
		{"not all yet", filled, channel.Fill, ""},
		{"stored", stored(batch(3, 1, 1)), channel.Deliver, "3@1"},
		{"stored", stored(batch(4, 1, 1)), channel.Deliver, "4@1"},
		{"all", filled, channel.Nothing, ""},
		{"live again", live(batch(5, 1, 1)), channel.Deliver, "5@1"},
	},
	"resume at the last frame needs no stored frames": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"live", live(batch(5, 1, 1)), channel.Deliver, "5@1"},
	},
	"resume before the last frame reads stored frames": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(2), channel.Fill, ""},
		{"stored, partly seen", stored(batch(1, 3, 1)), channel.Deliver, "3@1"},
		{"the rest", stored(batch(4, 1, 1)), channel.Deliver, "4@1"},
		{"all", filled, channel.Nothing, ""},
	},
	"resume after an unpublished frame is lost": {
		{"published", published(4), channel.Nothing, ""}, {"resume", resume(5), channel.Lost, ""},
	},
	"resume before expired frames is lost": {
		{"published", published(9), channel.Nothing, ""},
		{"resume", resume(2), channel.Fill, ""},
		{"stored", stored(batch(5, 1, 1)), channel.Lost, ""},
	},
	"resume with an empty store is lost": {
		{"published", published(9), channel.Nothing, ""},
		{"resume", resume(2), channel.Fill, ""},
		{"none", filled, channel.Fill, ""},
		{"never", giveUp, channel.Lost, ""},
	},
	"begin delivers all stored frames": {
		{"published", published(2), channel.Nothing, ""},
		{"begin", begin, channel.Fill, ""},
		{"stored", stored(batch(1, 2, 1)), channel.Deliver, "1@1 2@1"},
		{"all", filled, channel.Nothing, ""},
	},
	"begin in an empty channel delivers from the first live frame": {
		{"begin", begin, channel.Nothing, ""},
		{"live", live(batch(1, 1, 1)), channel.Deliver, "1@1"},
		{"a gap is not skipped", live(batch(3, 1, 1)), channel.Fill, ""},
		{"never", giveUp, channel.Lost, ""},
	},
	"begin after the first frames expired continues with the next live frame": {
		{"published", published(9), channel.Nothing, ""},
		{"begin", begin, channel.Fill, ""},
		{"stored", stored(batch(5, 1, 1)), channel.Nothing, ""},
		{"more stored", stored(batch(6, 5, 1)), channel.Deliver, "10@1"},
		{"all", filled, channel.Nothing, ""},
		{"live", live(batch(11, 1, 1)), channel.Deliver, "11@1"},
	},
	"begin after all frames expired continues with the next live frame": {
		{"published", published(9), channel.Nothing, ""},
		{"begin", begin, channel.Fill, ""},
		{"none", filled, channel.Fill, ""},
		{"live, meanwhile", live(batch(10, 1, 1)), channel.Nothing, ""},
		{"never", giveUp, channel.Fill, ""},
		{"stored", stored(batch(10, 1, 1)), channel.Deliver, "10@1"},
		{"all", filled, channel.Nothing, ""},
		{"live", live(batch(11, 1, 1)), channel.Deliver, "11@1"},
	},
	"begin is lost if frames published since then have expired": {
		{"published", published(9), channel.Nothing, ""},
		{"begin", begin, channel.Fill, ""},
		{"stored", stored(batch(12, 1, 1)), channel.Lost, ""},
	},
	"frames of a new holder continue the sequence": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"live", live(batch(5, 1, 1)), channel.Deliver, "5@1"},
		{"mark", live(batch(6, 0, 2)), channel.Nothing, ""},
		{"the new holder", live(batch(6, 1, 2)), channel.Deliver, "6@2"},
	},
	"the mark of an epoch reveals a gap": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"mark", live(batch(6, 0, 2)), channel.Fill, ""},
		{"stored", stored(batch(5, 1, 1)), channel.Deliver, "5@1"},
		{"the mark, stored", stored(batch(6, 0, 2)), channel.Nothing, ""},
		{"all", filled, channel.Nothing, ""},
	},
	"a new holder that counts from an earlier point makes the client lost": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"live", live(batch(5, 1, 1)), channel.Deliver, "5@1"},
		{"mark", live(batch(3, 0, 2)), channel.Lost, ""},
	},
	"a holder with fewer frames than the client makes the client lost": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"asked", ask, channel.Nothing, ""},
		{"attached again", published(3), channel.Lost, ""},
	},
	"live frames are delivered while the holder is asked": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"asked", ask, channel.Nothing, ""},
		{"live", live(batch(5, 2, 1)), channel.Deliver, "5@1 6@1"},
		{"attached again", published(4), channel.Nothing, ""},
		{"live", live(batch(7, 1, 1)), channel.Deliver, "7@1"},
	},
	"a missed last batch is found": {
		{"published", published(4), channel.Nothing, ""},
		{"resume", resume(4), channel.Nothing, ""},
		{"the bus was away", suspect, channel.Fill, ""},
		{"again", suspect, channel.Nothing, ""},
		{"none that early", filled, channel.Fill, ""},
		{"stored", stored(batch(5, 1, 1)), channel.Deliver, "5@1"},
		{"all", filled, channel.Nothing, ""},
		{"attached again", published(6), channel.Fill, ""},
	},
}

// Each method of a splice returns the right verdict and frames, in stories of several steps.
func TestSplice(t *testing.T) {
	t.Parallel()
	for name, steps := range spliceStories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s channel.Splice
			for _, st := range steps {
				b, verdict := st.do(&s)
				if verdict != st.want || strings.Join(frames(b), " ") != st.got {
					t.Fatalf("%s: got verdict %d with %v, want %d with %q", st.what, verdict, frames(b), st.want, st.got)
				}
			}
		})
	}
}

// world is a channel with a publisher, a store, and a client behind a splice.
type world struct {
	splice channel.Splice
	log    []channel.Batch // the stored batches
	epoch  int64
	gone   int      // number of expired batches of log
	got    []string // the client's frames; the first has the number first
	first  int64
	lost   bool
}

func (w *world) next() int64 {
	if len(w.log) == 0 {
		return 1
	}
	return w.log[len(w.log)-1].Next()
}

func (w *world) take(b channel.Batch, v channel.Verdict) {
	switch v {
	case channel.Deliver:
		if len(w.got) == 0 {
			w.first = b.First
		}
		w.got = append(w.got, frames(b)...)
	case channel.Lost:
		w.lost = true
	}
}

// fill reads the store like the gateway does.
func (w *world) fill() {
	next := w.splice.Next()
	for _, b := range w.log[w.gone:] {
		if !w.splice.Filling() || w.lost {
			return
		}
		if b.Next() > next || b.First >= next {
			w.take(w.splice.Stored(b))
		}
	}
	if w.splice.Filling() && !w.lost && w.splice.Filled() == channel.Fill && w.splice.Next() < w.next() {
		verdict := w.splice.GiveUp()
		if w.take(channel.Batch{}, verdict); verdict == channel.Fill {
			w.fill()
		}
	}
}

// Whether live batches are dropped, duplicated or expire, the client gets the published frames without gaps or
// duplicates, or is told that it is lost. It is never lost while all frames are stored.
func TestSpliceIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{epoch: 1}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				b := batch(w.next(), rapid.IntRange(0, 3).Draw(t, "frames"), w.epoch)
				w.log = append(w.log, b)
				for range rapid.IntRange(0, 2).Draw(t, "copies") {
					w.take(w.splice.Live(b))
				}
			},
			"takeover": func(t *rapid.T) {
				w.epoch++
				mark := batch(w.next(), 0, w.epoch)
				w.log = append(w.log, mark)
				if rapid.Bool().Draw(t, "heard") {
					w.take(w.splice.Live(mark))
				}
			},
			"age": func(t *rapid.T) { w.gone = rapid.IntRange(w.gone, len(w.log)).Draw(t, "gone") },
			"attach": func(t *rapid.T) {
				w.splice.Ask()
				last := w.next() - 1
				if rapid.Bool().Draw(t, "publish meanwhile") {
					b := batch(w.next(), 2, w.epoch)
					w.log = append(w.log, b)
					w.take(w.splice.Live(b))
				}
				w.take(channel.Batch{}, w.splice.Published(last))
			},
			"begin": func(*rapid.T) {
				if !w.splice.On() {
					w.take(channel.Batch{}, w.splice.Begin())
				}
			},
			"follow": func(*rapid.T) {
				if !w.splice.On() {
					w.splice.Follow()
				}
			},
			"fill":    func(*rapid.T) { w.fill() },
			"suspect": func(*rapid.T) { w.splice.Suspect() },
			"": func(t *rapid.T) {
				if w.lost { // the client reads the session anew
					if w.gone == 0 {
						t.Fatal("a client lost its place without a reason")
					}
					*w = world{log: w.log, gone: w.gone, epoch: w.epoch}
					return
				}
				w.check(t)
				w.checkComplete(t)
			},
		})
	})
}

func (w *world) check(t *rapid.T) {
	var all []string
	for _, b := range w.log {
		all = append(all, frames(b)...)
	}
	for i, f := range w.got {
		if at := int(w.first) - 1 + i; at >= len(all) || f != all[at] {
			t.Fatalf("frame %d is %q, published are %v", at+1, f, all)
		}
	}
}

// checkComplete checks that filling the channel delivers every frame, if no frame has expired.
func (w *world) checkComplete(t *rapid.T) {
	if !w.splice.On() || w.gone > 0 {
		return
	}
	probe := *w
	probe.got = slices.Clone(w.got)
	probe.splice.Suspect()
	probe.fill()
	probe.fill() // the gateway also repeats the read
	if probe.lost || probe.splice.Filling() || probe.splice.Next() != w.next() {
		t.Fatalf("after a fill the client is at %d, lost %v, while the next frame is %d", probe.splice.Next(), probe.lost,
			w.next())
	}
}

// A queue keeps the order, counts bytes per lane until they are sent, accepts one item larger than the limit, and
// removes a dropped lane.
func TestQueue(t *testing.T) {
	t.Parallel()
	var q channel.Queue
	push := func(lane int, data string, want bool) {
		t.Helper()
		if got := q.Push(lane, []byte(data), 4); got != want {
			t.Errorf("pushing %q on lane %d: %v", data, lane, got)
		}
	}
	pop := func(want string) channel.Item {
		t.Helper()
		item, ok := q.Pop()
		if string(item.Data) != want || ok != (want != "") {
			t.Errorf("popped %q, want %q", item.Data, want)
		}
		return item
	}
	pop("")
	push(1, "large one", true)
	push(1, "x", false)
	push(2, "ab", true)
	push(2, "cd", true)
	push(2, "e", false)
	large := pop("large one")
	push(1, "x", false)
	q.Sent(large)
	push(1, "x", true)
	q.Drop(2)
	if q.Waiting(2) != 0 || q.Waiting(1) != 1 || q.Waiting(7) != 0 {
		t.Errorf("waiting %d and %d", q.Waiting(2), q.Waiting(1))
	}
	push(2, "f", true)
	q.Sent(pop("x"))
	q.Sent(pop("f"))
	pop("")
	for range 2 {
		if !q.Push(0, make([]byte, 100), 0) {
			t.Error("a lane without limit was full")
		}
	}
}

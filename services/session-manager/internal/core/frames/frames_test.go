package frames_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	"kaged.dev/services/session-manager/internal/core/frames"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is a Stream in memory with the faults that the real one can show.
type stream struct {
	mu      sync.Mutex
	made    time.Time
	place   uint64
	kept    []stored
	ids     map[string]uint64
	faults  func() (before, after bool) // whether Append fails before or after it stored
	down    bool
	appends int
	gate    chan struct{} // Append waits for it if set
}

type stored struct {
	frames.Message
	place uint64
}

var errAway = errors.New("away")

func newStream() *stream { return &stream{ids: map[string]uint64{}} }

func (s *stream) Created(context.Context) (time.Time, error) { return s.made, nil }

func (s *stream) Tail(_ context.Context, session string, c frames.Channel) (frames.Tail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return frames.Tail{}, errAway
	}
	m := s.last(session, c)
	if m == nil {
		return frames.Tail{}, nil
	}
	return frames.Tail{Place: m.place, Last: m.First + int64(m.Count) - 1, Epoch: m.Epoch}, nil
}

func (s *stream) last(session string, c frames.Channel) *stored {
	for i := len(s.kept) - 1; i >= 0; i-- {
		if m := &s.kept[i]; m.Session == session && m.Channel == c {
			return m
		}
	}
	return nil
}

func (s *stream) Append(ctx context.Context, m frames.Message) (frames.Ack, error) {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return frames.Ack{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appends++
	var before, after bool
	if s.faults != nil {
		before, after = s.faults()
	}
	if before || s.down {
		return frames.Ack{}, errAway
	}
	var at uint64
	if last := s.last(m.Session, m.Channel); last != nil {
		at = last.place
	}
	if at != m.After {
		return frames.Ack{}, frames.ErrConflict
	}
	if place := s.ids[m.ID]; m.ID != "" && place != 0 {
		return frames.Ack{Place: place, Duplicate: true}, nil
	}
	s.place++
	m.Data = bytes.Clone(m.Data)
	s.kept = append(s.kept, stored{m, s.place})
	if m.ID != "" {
		s.ids[m.ID] = s.place
	}
	if after {
		return frames.Ack{}, errAway
	}
	return frames.Ack{Place: s.place}, nil
}

// read returns a channel's frames as "type payload", and fails if a number is missing or comes twice, from first on.
func (s *stream) read(t fataler, c frames.Channel, first int64) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	next := first
	for _, m := range s.kept {
		if m.Channel != c {
			continue
		}
		if m.First != next {
			t.Fatalf("a message begins with %d instead of %d", m.First, next)
		}
		if m.Count == 0 {
			continue
		}
		for line := range strings.SplitSeq(string(m.Data), "\n") {
			var f struct {
				Channel, Type string
				Seq           int64
				Payload       json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &f); err != nil || f.Seq != next || f.Channel != c.String() {
				t.Fatalf("frame %d is %s (%v)", next, line, err)
			}
			out = append(out, f.Type+" "+string(f.Payload))
			next++
		}
	}
	return out
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// desk is a writer with what it reported.
type desk struct {
	*frames.Writer
	mu        sync.Mutex
	published []int64
	acked     [frames.Channels]int64
	lost      error
	heldErr   error
}

func open(t fataler, s *stream, epoch int64, start frames.Start) *desk {
	t.Helper()
	d := &desk{}
	d.Writer = frames.New(d.config(s, epoch), start)
	if err := d.Opened(context.Background()); err != nil {
		t.Fatalf("opening: %v", err)
	}
	return d
}

func (d *desk) config(s *stream, epoch int64) frames.Config {
	return frames.Config{
		Session: "s", Epoch: epoch, Stream: s, Buffer: 4096, Batch: 512,
		Held: func(context.Context) error { d.mu.Lock(); defer d.mu.Unlock(); return d.heldErr },
		Progress: func(p frames.Progress) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.published = append(d.published, p.Published...)
			for c, n := range p.Acked {
				d.acked[c] = max(d.acked[c], n)
			}
		},
		Lost: func(err error) { d.mu.Lock(); defer d.mu.Unlock(); d.lost = err },
		Log:  slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func frame(i int) frames.Frame {
	return frames.Frame{Channel: frames.Output, Type: "message.delta", Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
}

func durable(n int64, kind string) frames.Durable {
	return frames.Durable{
		Frame: frames.Frame{Channel: frames.Events, Type: kind, Payload: fmt.Appendf(nil, `{"n":%d}`, n)}, N: n, ID: fmt.Sprint("r.", n),
	}
}

// Frames of a channel are numbered from 1 without a gap, those that wait while one message is on its way go out together
// within the batch limit, and a durable frame goes alone under its name.
func TestNumbersAndBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.gate = make(chan struct{})
		w := open(t, s, 1, frames.Start{})
		for i := range 20 {
			w.Emit(t.Context(), frame(i))
			synctest.Wait()
		}
		w.EmitDurable([]frames.Durable{durable(7, "run.ended"), durable(8, "session.state")})
		close(s.gate)
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := s.read(t, frames.Output, 1)
		if len(got) != 20 || got[0] != `message.delta {"n":0}` || got[19] != `message.delta {"n":19}` {
			t.Errorf("output = %q", got)
		}
		if got := s.read(t, frames.Events, 1); !cmp.Equal(got, []string{`run.ended {"n":7}`, `session.state {"n":8}`}) {
			t.Errorf("events = %q", got)
		}
		// The first frame alone, the other 19 in batches of about 60 bytes each within 512.
		if s.appends < 4 || s.appends > 7 {
			t.Errorf("%d messages", s.appends)
		}
		for _, m := range s.kept {
			if len(m.Data) > 512 || m.Epoch != 1 || (m.Channel == frames.Events) != (m.ID != "") {
				t.Errorf("message %+v", m)
			}
		}
		if !cmp.Equal(w.published, []int64{7, 8}) || w.acked != [2]int64{20, 2} || w.Acked() != w.acked {
			t.Errorf("published %v, acked %v", w.published, w.acked)
		}
		w.Close(t.Context())
	})
}

// While the stream is away nothing is lost: the buffer fills, Emit waits, durable frames are still taken, and everything
// goes out in order when the stream is back.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.down = true
		w := func() *desk { s.down = false; w := open(t, s, 1, frames.Start{}); s.down = true; return w }()
		done := make(chan int, 1)
		go func() {
			n := 0
			for ; n < 500; n++ {
				if err := w.Emit(t.Context(), frame(n)); err != nil {
					break
				}
			}
			done <- n
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case n := <-done:
			t.Fatalf("%d frames were taken without a stream", n)
		default:
		}
		w.EmitDurable([]frames.Durable{durable(1, "run.ended")})
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		if n := <-done; n != 500 {
			t.Fatalf("Emit failed after %d", n)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, frames.Output, 1); len(got) != 500 || got[499] != `message.delta {"n":499}` {
			t.Errorf("%d frames", len(got))
		}
		if got := s.read(t, frames.Events, 1); len(got) != 1 {
			t.Errorf("events = %q", got)
		}
		w.Close(t.Context())
	})
}

// A wait for room ends with its context and the frame is taken all the same, within twice the buffer; a closed writer takes
// nothing.
func TestCancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		w := open(t, s, 1, frames.Start{})
		s.down = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		patient := 0
		for ; ctx.Err() == nil; patient++ {
			if err := w.Emit(ctx, frame(patient)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 * patient {
			if err := w.Emit(ctx, frame(patient+i)); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(s.read(t, frames.Output, 1)); got < 2*patient-5 || got > 2*patient+5 {
			t.Errorf("%d frames, of which %d had room", got, patient)
		}
		w.Close(t.Context())
		w.Close(t.Context())
		if err := w.Emit(t.Context(), frame(0)); !errors.Is(err, fault.Unavailable) {
			t.Errorf("after Close: %v", err)
		}
		w.EmitDurable([]frames.Durable{durable(1, "x")})
		if w.lost != nil || !errors.Is(w.Flush(t.Context()), fault.Unavailable) {
			t.Errorf("lost = %v", w.lost)
		}
	})
}

// Closing does not wait for a stream that is away longer than it is allowed to.
func TestCloseDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		w := open(t, s, 1, frames.Start{})
		s.down = true
		w.Emit(t.Context(), frame(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		w.Close(ctx)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// Whatever fails between writer and stream, before or after a message was stored, the stream ends up with every frame
// once and in order.
func TestFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		n := rapid.IntRange(1, 120).Draw(rt, "frames")
		synctest.Test(t, func(t *testing.T) {
			s := newStream()
			random := rand.New(rand.NewPCG(seed, 1))
			s.faults = func() (bool, bool) { return random.IntN(3) == 0, random.IntN(3) == 0 }
			w := open(rt, s, 1, frames.Start{TakeOver: true, Outbox: []frames.Durable{durable(1, "session.state")}})
			for i := range n {
				w.Emit(t.Context(), frame(i))
				if i%10 == 9 {
					w.EmitDurable([]frames.Durable{durable(int64(i+2), "run.ended")})
				}
			}
			if err := w.Flush(t.Context()); err != nil {
				rt.Fatalf("flush: %v", err)
			}
			for i, got := range s.read(rt, frames.Output, 1) {
				if got != fmt.Sprintf(`message.delta {"n":%d}`, i) {
					rt.Fatalf("frame %d is %s", i, got)
				}
			}
			if got := s.read(rt, frames.Events, 1); len(got) != 1+n/10 {
				rt.Fatalf("events = %q", got)
			}
			if w.Acked()[frames.Output] != int64(n) {
				rt.Fatalf("acked %v of %d", w.Acked(), n)
			}
			w.Close(t.Context())
		})
	})
}

// A new holder marks the channels, goes on behind what was published, publishes what the store still lists unless the
// stream has it, and from then on the holder before it is refused and says so.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		old := open(t, s, 1, frames.Start{})
		for i := range 3 {
			old.Emit(t.Context(), frame(i))
		}
		old.EmitDurable([]frames.Durable{durable(1, "run.started")})
		old.Flush(t.Context())

		// The crash came before 1 was struck out and before 2 was published.
		next := open(t, s, 2, frames.Start{
			TakeOver: true, Stored: [2]int64{1, 0}, WorkSince: 1,
			Outbox: []frames.Durable{durable(1, "run.started"), durable(2, "session.state")},
		})
		next.Emit(t.Context(), frame(3))
		next.Flush(t.Context())
		if got := s.read(t, frames.Output, 1); len(got) != 4 || got[3] != `message.delta {"n":3}` {
			t.Errorf("output = %q", got)
		}
		if got := s.read(t, frames.Events, 1); !cmp.Equal(got, []string{`run.started {"n":1}`, `session.state {"n":2}`}) {
			t.Errorf("events = %q", got)
		}
		if !cmp.Equal(next.published, []int64{1, 2}) {
			t.Errorf("published %v", next.published)
		}
		old.Emit(t.Context(), frame(99))
		synctest.Wait()
		if !errors.Is(old.lost, fault.StaleLease) || !errors.Is(old.Emit(t.Context(), frame(99)), fault.StaleLease) {
			t.Errorf("the old holder: lost = %v", old.lost)
		}
		if got := s.read(t, frames.Output, 1); len(got) != 4 {
			t.Errorf("output = %q", got)
		}
		old.Close(t.Context())
		next.Close(t.Context())
		late := frames.New(old.config(s, 1), frames.Start{TakeOver: true})
		if err := late.Opened(t.Context()); !errors.Is(err, fault.StaleLease) {
			t.Errorf("opening under an old epoch: %v", err)
		}
		late.Close(t.Context())
	})
}

// Where the channel's messages have aged out the writer goes on with the numbers it knows, if the store says that the lease
// is still its own, and is lost otherwise.
func TestAgedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		w := open(t, s, 1, frames.Start{Stored: [2]int64{40, 2}})
		w.Emit(t.Context(), frame(0))
		w.Flush(t.Context())
		s.mu.Lock()
		s.kept = nil
		s.mu.Unlock()
		w.Emit(t.Context(), frame(1))
		w.Flush(t.Context())
		if got := s.read(t, frames.Output, 42); !cmp.Equal(got, []string{`message.delta {"n":1}`}) {
			t.Errorf("output = %q", got)
		}
		s.mu.Lock()
		s.kept = nil
		s.mu.Unlock()
		w.mu.Lock()
		w.heldErr = fault.New(fault.StaleLease, "gone")
		w.mu.Unlock()
		w.Emit(t.Context(), frame(2))
		synctest.Wait()
		if !errors.Is(w.lost, fault.StaleLease) || len(s.kept) != 0 {
			t.Errorf("lost = %v, kept %d", w.lost, len(s.kept))
		}
		w.Close(t.Context())
	})
}

// When the stream was lost together with a holder at work, the numbers jump, so that no client takes other frames for ones
// it has seen; when it merely holds nothing, they do not.
func TestLostStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.made = time.UnixMilli(1000)
		for since, want := range map[int64]int64{0: 5, 2000: 5, 500: 5 + 1<<20} {
			w := open(t, s, 2, frames.Start{Stored: [2]int64{5, 0}, WorkSince: since})
			if got := w.Acked()[frames.Output]; got != want {
				t.Errorf("work since %d: goes on behind %d, want %d", since, got, want)
			}
			w.Close(t.Context())
		}
	})
}

// Frames that come while the stream cannot be reached wait for their numbers and follow what the last holder left over.
func TestOpenDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		old := open(t, s, 1, frames.Start{})
		old.Emit(t.Context(), frame(0))
		old.Close(t.Context())
		s.down = true
		d := &desk{}
		w := frames.New(d.config(s, 2), frames.Start{TakeOver: true, Outbox: []frames.Durable{durable(1, "run.ended")}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Opened(ctx); !errors.Is(err, context.DeadlineExceeded) || w.Idle() {
			t.Errorf("opened without a stream: %v", err)
		}
		payload := []byte(`{"n":1}`)
		w.Emit(t.Context(), frames.Frame{Channel: frames.Output, Type: "message.delta", Payload: payload})
		copy(payload, "XXXXXXX")
		w.EmitDurable([]frames.Durable{durable(2, "session.state")})
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, frames.Output, 1); !cmp.Equal(got, []string{`message.delta {"n":0}`, `message.delta {"n":1}`}) {
			t.Errorf("output = %q", got)
		}
		if got := s.read(t, frames.Events, 1); !cmp.Equal(got, []string{`run.ended {"n":1}`, `session.state {"n":2}`}) {
			t.Errorf("events = %q", got)
		}
		w.Close(t.Context())
		if err := w.Opened(t.Context()); err != nil {
			t.Errorf("opened: %v", err)
		}
	})
}

// A writer that is closed before it found out where it stands ends at once.
func TestCloseBeforeOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.down = true
		w := frames.New((&desk{}).config(s, 1), frames.Start{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Close(ctx)
		if err := w.Opened(t.Context()); !errors.Is(err, fault.Unavailable) {
			t.Errorf("opened: %v", err)
		}
	})
}

// saver remembers what it was given.
type saver struct {
	mu    sync.Mutex
	saves [][]frames.Progress
	err   error
}

func (s *saver) SaveProgress(_ context.Context, list []frames.Progress) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.saves = append(s.saves, list)
	}
	return s.err
}

func (s *saver) list() [][]frames.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saves
}

func (s *saver) set(err error, saves [][]frames.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.saves = err, saves
}

// The ledger saves published durable frames at once and numbers within its interval, sums up per session, and keeps what
// could not be saved.
func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &saver{}
		l := frames.NewLedger(s, time.Second, slog.New(slog.NewTextHandler(io.Discard, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		l.Note(frames.Progress{Session: "b", Acked: [2]int64{1, 0}})
		l.Note(frames.Progress{Session: "a", Acked: [2]int64{2, 0}})
		l.Note(frames.Progress{Session: "b", Acked: [2]int64{7, 0}})
		synctest.Wait()
		if got := s.list(); len(got) != 0 {
			t.Errorf("saved at once: %v", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := [][]frames.Progress{{{Session: "a", Acked: [2]int64{2, 0}}, {Session: "b", Acked: [2]int64{7, 0}}}}
		if d := cmp.Diff(want, s.list()); d != "" {
			t.Error(d)
		}
		s.set(errAway, nil)
		l.Note(frames.Progress{Session: "a", Acked: [2]int64{3, 1}, Published: []int64{4}})
		synctest.Wait()
		l.Note(frames.Progress{Session: "a", Acked: [2]int64{0, 2}, Published: []int64{5}})
		s.set(nil, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		want = [][]frames.Progress{{{Session: "a", Acked: [2]int64{3, 2}, Published: []int64{4, 5}}}}
		if d := cmp.Diff(want, s.list()); d != "" {
			t.Error(d)
		}
		l.Note(frames.Progress{Session: "c", Published: []int64{1}})
		synctest.Wait()
		if got := s.list(); len(got) != 2 {
			t.Errorf("not saved at once: %v", got)
		}
		cancel()
		<-ended
		l.Note(frames.Progress{Session: "d", Acked: [2]int64{1, 0}})
		if err := l.Flush(t.Context()); err != nil || len(s.list()) != 3 {
			t.Errorf("the last save: %v, %v", err, s.list())
		}
	})
}

// Numbers are saved once in an interval however steadily new ones come.
func TestLedgerUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &saver{}
		l := frames.NewLedger(s, time.Second, slog.New(slog.NewTextHandler(io.Discard, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		for i := range int64(50) {
			l.Note(frames.Progress{Session: "a", Acked: [2]int64{i + 1, 0}})
			time.Sleep(100 * time.Millisecond)
		}
		if got := len(s.list()); got < 4 || got > 6 {
			t.Errorf("%d saves in five seconds", got)
		}
		cancel()
		<-ended
	})
}

// A frame reads the same however long its number is.
func TestAppendFrame(t *testing.T) {
	got := string(frames.AppendFrame(nil, 1234, frames.Frame{Channel: frames.Events, Type: "run.started", Payload: []byte(`{}`)}))
	if want := `{"channel":"events","seq":1234,"type":"run.started","payload":{}}`; got != want {
		t.Errorf("got %s", got)
	}
	for _, name := range []string{"output", "events"} {
		if c, ok := frames.ParseChannel(name); !ok || c.String() != name {
			t.Errorf("%s: %v %v", name, c, ok)
		}
	}
	if _, ok := frames.ParseChannel("control"); ok {
		t.Error("control is numbered per socket")
	}
}

func BenchmarkEmit(b *testing.B) {
	s := newStream()
	w := open(b, s, 1, frames.Start{})
	f := frames.Frame{Channel: frames.Output, Type: "message.delta", Payload: []byte(`{"message_id":"01K0000000000000000000000A","delta":"word ","kind":"text"}`)}
	b.ReportAllocs()
	for b.Loop() {
		w.Emit(b.Context(), f)
	}
	w.Close(b.Context())
}

// Text is cut at whole characters to what fits into a JSON string, and the pieces join to the text again.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		s      string
		budget int
		want   string
	}{
		{"abc", 100, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"a\n", 2, "a"}, {"a\n", 3, "a\n"}, {"\x01x", 6, "\x01"},
		{"a\xffb", 4, "a\xff"}, {"a\xffb", 3, "a"}, {"", 0, ""}, {`"`, 1, ""},
	} {
		if got := c.s[:frames.Fit(c.s, c.budget)]; got != c.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.s, c.budget, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		budget := rapid.IntRange(6, 40).Draw(t, "budget")
		var joined string
		for _, piece := range frames.Split(s, budget) {
			if inside := len(wirejson.AppendString(nil, piece)) - 2; inside > budget || piece == "" {
				t.Fatalf("piece %q takes %d of %d", piece, inside, budget)
			}
			joined += piece
		}
		if joined != s {
			t.Fatalf("%q became %q", s, joined)
		}
	})
}

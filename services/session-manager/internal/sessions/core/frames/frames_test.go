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
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is a Stream in memory that can fail, conflict and lose acknowledgements like the real one.
type stream struct {
	mu      sync.Mutex
	made    time.Time
	place   uint64
	kept    []stored
	ids     map[string]uint64
	faults  func() (before, after bool) // whether Append fails before it stores, and whether it fails after
	down    bool
	appends int
	gate    chan struct{} // Append waits for it if set
	limit   int           // largest message in bytes, 0 for no limit
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
	if s.limit > 0 && len(m.Data) > s.limit {
		return frames.Ack{}, fault.New(fault.PayloadTooLarge, "Too large.")
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

// read returns a channel's frames as "type payload". It fails the test unless they are numbered without gap or
// repetition from first on.
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

// recorder is a writer that records its calls of Progress and Lost.
type recorder struct {
	*frames.Writer
	mu        sync.Mutex
	published []int64
	acked     [frames.Channels]int64
	lost      error
	heldErr   error
}

func open(t fataler, s *stream, epoch int64, start frames.Start) *recorder {
	t.Helper()
	d := &recorder{}
	d.Writer = frames.New(d.config(s, epoch), start)
	if err := d.Opened(context.Background()); err != nil {
		t.Fatalf("opening: %v", err)
	}
	return d
}

func (d *recorder) config(s *stream, epoch int64) frames.Config {
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
		Frame: frames.Frame{Channel: frames.Events, Type: kind, Payload: fmt.Appendf(nil, `{"n":%d}`, n)}, N: n,
		ID: fmt.Sprint("r.", n),
	}
}

// Frames of a channel are numbered from 1 without a gap. Frames that wait while a message is being published go out
// together within the batch limit; a durable frame goes alone, with its ID.
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
		// The first frame goes alone, the other 19, about 60 bytes each, in batches of at most 512 bytes.
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

// An unreachable stream loses no frame: the buffer fills, Emit blocks, durable frames are still accepted, and all
// frames are published in order once the stream answers again.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.down = true
		w := func() *recorder { s.down = false; w := open(t, s, 1, frames.Start{}); s.down = true; return w }()
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

// The reached numbers include a message that the stream may hold already: they are told after its acknowledgement, or
// without it at the end of the context.
func TestReachedAwaitsAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		w := open(t, s, 1, frames.Start{})
		s.gate = make(chan struct{})
		if err := w.Emit(t.Context(), frame(0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the message is under way
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := w.Reached(short); got != [2]int64{} || short.Err() == nil {
			t.Errorf("without an acknowledgement: %v, %v", got, short.Err())
		}
		told := make(chan [frames.Channels]int64)
		go func() { told <- w.Reached(t.Context()) }()
		synctest.Wait()
		select {
		case got := <-told:
			t.Errorf("told before the acknowledgement: %v", got)
			return
		default:
		}
		close(s.gate)
		if got := <-told; got != [2]int64{1, 0} {
			t.Errorf("after the acknowledgement: %v", got)
		}
		w.Close(t.Context())
	})
}

// A cancelled Emit stops waiting and still accepts its frame, up to twice the buffer; a closed writer accepts no
// frame.
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

// A batch that is larger than the stream accepts is published in parts.
func TestDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s := newStream()
		s.gate, s.limit = make(chan struct{}), 200
		w := open(t, s, 1, frames.Start{})
		defer w.Close(ctx)
		for i := range 21 {
			w.Emit(t.Context(), frame(i))
			synctest.Wait()
		}
		close(s.gate)
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, frames.Output, 1); len(got) != 21 || got[20] != `message.delta {"n":20}` {
			t.Errorf("output = %q", got)
		}
		if w.Acked() != [2]int64{21, 0} {
			t.Errorf("acked %v", w.Acked())
		}
	})
}

// A frame that the stream refuses as too large is shortened: it keeps its number and fields and is marked as
// truncated, and later frames follow. The same holds for a frame from the outbox of a crashed holder.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s := newStream()
		s.limit = 1300
		long := strings.Repeat("ö<", 1000)
		huge := func(kind string) frames.Frame {
			ones := strings.Repeat("1,", 999)
			payload := fmt.Sprintf(`{"id":"i","input":{"a":[%s1],"b":%q},"list":[%[1]s1],"n":7,"text":%[2]q}`, ones, long)
			return frames.Frame{Channel: frames.Events, Type: kind, Payload: []byte(payload)}
		}
		w := &recorder{}
		left := frames.Durable{Frame: huge("left.over"), N: 1, ID: "r.1"}
		w.Writer = frames.New(w.config(s, 1), frames.Start{TakeOver: true, Outbox: []frames.Durable{left}})
		defer w.Close(ctx)
		w.EmitDurable([]frames.Durable{{Frame: huge("run.ended"), N: 2, ID: "r.2"}, durable(3, "session.state")})
		if err := w.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		kept := strings.Repeat("ö<", 85)
		short := ` {"id":"i","input":{"a":[],"b":"` + kept + `"},"list":[],"n":7,"text":"` + kept + `","truncated":true}`
		want := []string{"left.over" + short, "run.ended" + short, `session.state {"n":3}`}
		if d := cmp.Diff(want, s.read(t, frames.Events, 1)); d != "" {
			t.Error(d)
		}
		if !cmp.Equal(w.published, []int64{1, 2, 3}) || w.Acked() != [2]int64{0, 3} || !w.Idle() {
			t.Errorf("published %v, acked %v", w.published, w.Acked())
		}
	})
}

// Close returns when its context ends, even if the stream is still unreachable.
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

// Whether an append fails before or after the message was stored, the stream ends up with every frame once and in
// order.
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

// AppendFrame writes all fields in a fixed order; control is not a numbered channel.
func TestAppendFrame(t *testing.T) {
	got := string(frames.AppendFrame(nil, 1234, frames.Frame{
		Channel: frames.Events, Type: "run.started", Payload: []byte(`{}`),
	}))
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
	f := frames.Frame{
		Channel: frames.Output, Type: "message.delta",
		Payload: []byte(`{"message_id":"01K0000000000000000000000A","delta":"word ","kind":"text"}`),
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Emit(b.Context(), f)
	}
	w.Close(b.Context())
}

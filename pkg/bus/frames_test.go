package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writer publishes a channel as its sequencer does: each batch names the preceding one.
type writer struct {
	frames           *bus.Frames
	session, channel string
	epoch            int64
	next             int64
	last             uint64
}

func newWriter(f *bus.Frames, session string) *writer {
	return &writer{frames: f, session: session, channel: "output", epoch: 1, next: 1}
}

// batch is the next n frames.
func (w *writer) batch(n int) bus.Batch {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"channel":%q,"seq":%d}`, w.channel, w.next+int64(i))
	}
	last := w.last
	return bus.Batch{
		Session: w.session, Channel: w.channel, Epoch: w.epoch, Seq: w.next, Count: n,
		Body: []byte(strings.Join(lines, "\n")), ExpectLast: &last,
	}
}

func (w *writer) publish(ctx context.Context, n int) error {
	ack, err := w.frames.Publish(ctx, w.batch(n))
	if err == nil {
		w.last, w.next = ack.StreamSeq, w.next+int64(n)
	}
	return err
}

func (w *writer) mustPublish(t testing.TB, n int) {
	t.Helper()
	if err := w.publish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// A reader uses the stream of its owner: it creates and changes no stream, and sees the stored messages.
func TestReadersMakeNothing(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	reader := bus.ReadFrames(nats.Connect(t))
	_, err := reader.Incarnation(t.Context())
	wantFault(t, err, fault.Unavailable)
	if err := newWriter(reader, "s1").publish(t.Context(), 1); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a reader's publish without a stream: %v", err)
	}
	owner := nats.Frames(t, bus.FramesConfig{Retention: time.Hour, MaxBytes: 1 << 20})
	life, err := owner.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newWriter(owner, "s1").mustPublish(t, 3)
	if got, err := reader.Incarnation(t.Context()); err != nil || got != life {
		t.Errorf("the reader sees %q %v, the owner made %q", got, err, life)
	}
	n := 0
	for b, err := range reader.Replay(t.Context(), "s1", "output", 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n += b.Count
	}
	if n != 3 {
		t.Errorf("the reader sees %d frames", n)
	}
}

func wantFault(t testing.TB, err error, code fault.Code) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if code == fault.Unavailable && f.Details["subsystem"] != "bus" {
		t.Errorf("details are %v, want subsystem bus", f.Details)
	}
	return f
}

// replayed collects the numbers of the frames of a replay.
func replayed(t testing.TB, f *bus.Frames, session string, from, known int64) (seqs []int64, err error) {
	t.Helper()
	for b, err := range f.Replay(t.Context(), session, "output", from, known) {
		if err != nil {
			return seqs, err
		}
		for seq, frame := range b.Frames(from) {
			if want := fmt.Sprintf(`{"channel":"output","seq":%d}`, seq); string(frame) != want {
				t.Errorf("frame %d is %s", seq, frame)
			}
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}

func wantSeqs(t testing.TB, got []int64, from, to int64) {
	t.Helper()
	if int64(len(got)) != to-from+1 {
		t.Errorf("got %d frames, want %d to %d", len(got), from, to)
		return
	}
	for i, seq := range got {
		if seq != from+int64(i) {
			t.Errorf("frame %d is number %d, want %d", i, seq, from+int64(i))
			return
		}
	}
}

// Replay and Tail return a published batch byte for byte; a replay may begin at any frame.
func TestWhatIsPublishedIsReplayed(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	w := newWriter(f, "S1")
	for n := range 6 {
		w.mustPublish(t, n+1)
		newWriter(f, fmt.Sprint("other", n)).mustPublish(t, 3)
	}
	tail, found, err := f.Tail(t.Context(), "S1", "output")
	if err != nil || !found || tail.Seq != 16 || tail.Count != 6 || tail.Epoch != 1 || tail.StreamSeq != w.last ||
		tail.Session != "S1" || tail.Channel != "output" {
		t.Errorf("the tail is %+v, %v, %v", tail, found, err)
	}
	for from := int64(-1); from <= 25; from++ {
		got, err := replayed(t, f, "S1", from, 0)
		if err != nil {
			t.Fatalf("from %d: %v", from, err)
		}
		wantSeqs(t, got, min(max(from, 1), 22), 21)
	}
	if _, found, err := f.Tail(t.Context(), "S1", "control"); found || err != nil {
		t.Errorf("a channel without messages has a tail: %v, %v", found, err)
	}
}

// Once a successor's epoch marker is stored, the old writer is refused and adds no frame.
func TestAStaleWriterIsRefused(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	old := newWriter(f, "S1")
	old.mustPublish(t, 3)
	successor := *old
	successor.epoch = 2
	successor.mustPublish(t, 0)
	f1 := wantFault(t, old.publish(t.Context(), 2), fault.StaleLease)
	if last := f1.Details["last_seq"]; last != int64(successor.last) || f1.Details["epoch"] != int64(2) {
		t.Errorf("the refusal says %v", f1.Details)
	}
	successor.mustPublish(t, 2)
	got, err := replayed(t, f, "S1", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantSeqs(t, got, 1, 5)
	marker := false
	for b, err := range f.Replay(t.Context(), "S1", "output", 4, 0) {
		marker = marker || (err == nil && b.Count == 0 && b.Epoch == 2 && b.Seq == 4)
	}
	if !marker {
		t.Error("the replay leaves the epoch marker out")
	}
}

// If no message is retained, a refusal says so, and a writer that has confirmed its lease starts from an empty subject.
func TestAnAgedOutSubjectIsTold(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	w := newWriter(f, "S1")
	w.next, w.last = 41, 1000
	err := w.publish(t.Context(), 1)
	wantFault(t, err, fault.StaleLease)
	if last := fault.From(err).Details["last_seq"]; last != int64(0) {
		t.Errorf("the last message is %v", last)
	}
	w.last = 0
	w.mustPublish(t, 1)
}

// Repeating a publish after a lost answer does no harm, fenced or not.
func TestRepeatingAPublishIsSafe(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	w := newWriter(f, "S1")
	w.mustPublish(t, 2)
	for _, id := range []string{"", "S1-output-3"} {
		b := w.batch(2)
		b.MsgID = id
		first, err := f.Publish(t.Context(), b)
		if err != nil || first.Duplicate {
			t.Fatalf("%+v, %v", first, err)
		}
		again, err := f.Publish(t.Context(), b)
		if err != nil || !again.Duplicate || again.StreamSeq != first.StreamSeq {
			t.Errorf("the second publish gave %+v, %v, the first %+v", again, err, first)
		}
		w.last, w.next = first.StreamSeq, w.next+2
	}
	lifecycle := bus.Batch{
		Session: "S1", Channel: "output", Epoch: 1, Seq: w.next, Count: 1, Body: []byte("{}"), MsgID: "run-ended",
	}
	first, err := f.Publish(t.Context(), lifecycle)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Publish(t.Context(), lifecycle)
	if err != nil || !again.Duplicate || again.StreamSeq != first.StreamSeq {
		t.Errorf("the second publish gave %+v, %v", again, err)
	}
	// A frame of another writer with the same number is not mistaken for this writer's frame.
	other := w.batch(1)
	other.Epoch = 2
	_, err = f.Publish(t.Context(), other)
	wantFault(t, err, fault.StaleLease)
}

// An expired frame is reported as a gap wherever it is missing; a replay does not skip it.
func TestAGapIsTold(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	for _, c := range []struct {
		name    string
		publish func(w *writer)
		from    int64
		known   int64
		gap     bool
	}{
		{name: "nothing was ever published", publish: func(*writer) {}, from: 1},
		{name: "nothing is retained of what is known", publish: func(*writer) {}, from: 1, known: 5, gap: true},
		{name: "nothing new is known", publish: func(*writer) {}, from: 6, known: 5},
		{name: "the beginning is missing", publish: func(w *writer) { w.next = 10; w.mustPublish(t, 3) }, from: 9, gap: true},
		{name: "only what comes after is retained", publish: func(w *writer) { w.next = 10; w.mustPublish(t, 3) }, from: 10},
		{
			name: "only a marker is retained", publish: func(w *writer) { w.next = 10; w.mustPublish(t, 0) }, from: 9, gap: true,
		},
		{name: "the marker is where the reader is", publish: func(w *writer) { w.next = 10; w.mustPublish(t, 0) }, from: 10},
		{
			name: "a hole", publish: func(w *writer) {
				w.mustPublish(t, 3)
				w.next = 7
				w.mustPublish(t, 1)
			}, from: 1, gap: true,
		},
		{name: "the end is missing", publish: func(w *writer) { w.mustPublish(t, 3) }, from: 1, known: 4, gap: true},
		{
			name: "the end is missing beyond the reader", publish: func(w *writer) {
				w.mustPublish(t, 3)
			}, from: 5, known: 7, gap: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter(f, strings.ReplaceAll(c.name, " ", "-"))
			c.publish(w)
			_, err := replayed(t, f, w.session, c.from, c.known)
			if errors.Is(err, bus.ErrGap) != c.gap || (err != nil && !c.gap) {
				t.Errorf("the replay ended with %v, want a gap: %v", err, c.gap)
			}
		})
	}
}

// A long replay is read in pages and is complete; a replay of the last frames does not read the others.
func TestALongBacklogIsReplayed(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	w, noise := newWriter(f, "S1"), newWriter(f, "S2")
	for range 1200 {
		w.mustPublish(t, 2)
		noise.mustPublish(t, 1)
	}
	for _, from := range []int64{1, 2, 1200, 2390, 2400} {
		got, err := replayed(t, f, "S1", from, 2400)
		if err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, got, from, 2400)
	}
	began := 0
	for b, err := range f.Replay(t.Context(), "S1", "output", 1, 0) {
		if began++; err != nil || b.Seq != 1 {
			t.Errorf("%+v, %v", b, err)
		}
		break // A reader may stop after any batch.
	}
	if began != 1 {
		t.Errorf("%d batches came after the reader had stopped", began)
	}
}

// Expired messages are gone, and the writer continues.
func TestRetentionEnds(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{Retention: 200 * time.Millisecond})
	w := newWriter(f, "S1")
	w.mustPublish(t, 3)
	for deadline := time.Now().Add(time.Minute); ; {
		if _, found, err := f.Tail(t.Context(), "S1", "output"); err != nil || time.Now().After(deadline) {
			t.Fatalf("the message is still there: %v", err)
		} else if !found {
			break
		}
	}
	if _, err := replayed(t, f, "S1", 1, 3); !errors.Is(err, bus.ErrGap) {
		t.Errorf("the replay ended with %v", err)
	}
	wantFault(t, w.publish(t.Context(), 1), fault.StaleLease)
	w.last = 0
	w.mustPublish(t, 1)
}

// Names with a meaning in NATS and malformed batches are refused.
func TestBadBatchesAreRefused(t *testing.T) {
	t.Parallel()
	f := bustest.Server(t).Frames(t, bus.FramesConfig{})
	for _, name := range []string{"", "a.b", "*", ">", "a b", "a\r\nPUB x 0", "ä", strings.Repeat("x", 200)} {
		_, err := f.Publish(t.Context(), bus.Batch{Session: name, Channel: "output", Count: 1})
		wantFault(t, err, fault.BadRequest)
		_, _, err = f.Tail(t.Context(), "S1", name)
		wantFault(t, err, fault.BadRequest)
		_, err = replayed(t, f, name, 1, 0)
		wantFault(t, err, fault.BadRequest)
	}
	for _, b := range []bus.Batch{
		{Count: 2, Body: []byte("one")}, {Count: 0, Body: []byte("x")}, {Count: 1, Body: []byte("a\nb")}, {Seq: -1, Count: 1},
	} {
		b.Session, b.Channel = "S1", "output"
		_, err := f.Publish(t.Context(), b)
		wantFault(t, err, fault.Internal)
	}
	_, err := f.Publish(t.Context(), bus.Batch{
		Session: "S1", Channel: "output", Seq: 1, Count: 1, Body: make([]byte, 1<<20),
	})
	if f := wantFault(t, err, fault.PayloadTooLarge); f.Details["limit_bytes"] == nil {
		t.Errorf("details are %v", f.Details)
	}
}

// Several processes open the stream at once, and again with other limits.
func TestTheStreamIsSharedAndChanged(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	done := make(chan error, 4)
	for range cap(done) {
		conn := server.Connect(t)
		go func() {
			_, err := bus.OpenFrames(t.Context(), conn, bus.FramesConfig{})
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	f := server.Frames(t, bus.FramesConfig{})
	newWriter(f, "S1").mustPublish(t, 1)
	before, err := f.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again := server.Frames(t, bus.FramesConfig{Retention: time.Minute, MaxBytes: 1 << 20})
	if after, err := again.Incarnation(t.Context()); err != nil || after != before {
		t.Errorf("the incarnation was %s and is %s (%v)", before, after, err)
	}
	if got, err := replayed(t, again, "S1", 1, 1); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

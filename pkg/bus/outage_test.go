package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/bustest"
)

// collector is a live reader that reports received batches.
type collector struct {
	batches chan bus.Batch
	lost    chan struct{}
}

// collect follows sessions, S1 unless there are others.
func collect(t testing.TB, f *bus.Frames, sessions ...string) collector {
	t.Helper()
	c := collector{batches: make(chan bus.Batch, 4096), lost: make(chan struct{}, 16)}
	sub := f.Live(func(b bus.Batch) { c.batches <- b }, func() { c.lost <- struct{}{} })
	t.Cleanup(sub.Close)
	if len(sessions) == 0 {
		sessions = []string{"S1"}
	}
	for _, s := range sessions {
		follow(t, sub, s)
	}
	return c
}

// follow returns the end of following a session.
func follow(t testing.TB, sub *bus.Subscription, session string) (stop func()) {
	t.Helper()
	stop, err := sub.Follow(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

func next[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("not reached")
	}
}

// publishUntilTaken acts as a sequencer in an outage: it sends the same batch until it is stored or refused.
func publishUntilTaken(t testing.TB, w *writer, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := w.publish(t.Context(), n)
		if err == nil {
			return
		}
		if !errors.Is(err, fault.Unavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Live readers get the stored batches, each once and in order, and no refused batch.
func TestLiveIsWhatIsStored(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	f := server.Frames(t, bus.FramesConfig{})
	c := collect(t, server.Frames(t, bus.FramesConfig{}))
	w := newWriter(f, "S1")
	w.mustPublish(t, 2)
	again := w.batch(1)
	for range 3 {
		ack, err := f.Publish(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		w.last = ack.StreamSeq
	}
	w.next++
	stale := *w
	w.epoch = 2
	w.mustPublish(t, 0)
	wantFault(t, stale.publish(t.Context(), 1), fault.StaleLease)
	w.mustPublish(t, 1)
	var seqs []int64
	for range 4 {
		b := next(t, c.batches)
		if tail, _, _ := f.Tail(t.Context(), "S1", "output"); b.StreamSeq == tail.StreamSeq &&
			string(b.Body) != string(tail.Body) {
			t.Errorf("live has %s, the stream %s", b.Body, tail.Body)
		}
		for seq := range b.Frames(0) {
			seqs = append(seqs, seq)
		}
	}
	wantSeqs(t, seqs, 1, 4)
	if len(c.batches) != 0 {
		t.Errorf("%+v came too", <-c.batches)
	}
}

// During an outage of NATS all calls fail at once. Afterwards writers continue at their place, readers are told of a
// possible loss, and all acknowledged messages are present.
func TestAnOutageLosesNothing(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	conn := server.Connect(t)
	f, err := bus.OpenFrames(t.Context(), conn, bus.FramesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c := collect(t, server.Frames(t, bus.FramesConfig{}))
	before, err := f.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(f, "S1")
	w.mustPublish(t, 5)
	next(t, c.batches)
	server.Stop()
	publishErr := w.publish(t.Context(), 1)
	_, _, tailErr := f.Tail(t.Context(), "S1", "output")
	_, replayErr := replayed(t, f, "S1", 1, 0)
	for _, err := range []error{publishErr, tailErr, replayErr, conn.Ready()} {
		wantFault(t, err, fault.Unavailable)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: it waited for an answer that cannot come", err)
		}
	}
	server.Start()
	publishUntilTaken(t, w, 5)
	next(t, c.lost)
	got, err := replayed(t, f, "S1", 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	wantSeqs(t, got, 1, 10)
	if after, err := f.Incarnation(t.Context()); err != nil || after != before {
		t.Errorf("the incarnation was %s and is %s (%v)", before, after, err)
	}
	publishUntilTaken(t, w, 1)
	for b := next(t, c.batches); b.Next() != w.next; b = next(t, c.batches) {
	}
	if err := conn.Ready(); err != nil {
		t.Error(err)
	}
}

// The next publish creates a lost stream again, with a new incarnation.
func TestALostStreamIsMadeAgain(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	f := server.Frames(t, bus.FramesConfig{})
	c := collect(t, f)
	w := newWriter(f, "S1")
	w.mustPublish(t, 5)
	next(t, c.batches)
	before, err := f.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.DeleteStream(t, "WS")
	if _, found, err := f.Tail(t.Context(), "S1", "output"); found || err != nil {
		t.Errorf("a lost stream has a tail: %v, %v", found, err)
	}
	err = w.publish(t.Context(), 1)
	wantFault(t, err, fault.StaleLease)
	if last := fault.From(err).Details["last_seq"]; last != int64(0) {
		t.Errorf("the last message is %v", last)
	}
	w.last = 0
	w.mustPublish(t, 1)
	if b := next(t, c.batches); b.Seq != 6 {
		t.Errorf("live has %+v", b)
	}
	if after, err := f.Incarnation(t.Context()); err != nil || after == before {
		t.Errorf("the incarnation was %s and is %s (%v)", before, after, err)
	}
}

// A reader that is too slow is told of dropped messages, and gets them by replay.
func TestASlowReaderIsTold(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	f := server.Frames(t, bus.FramesConfig{})
	f.SetPendingMessages(16)
	entered, release, lost := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 16)
	sub := f.Live(func(bus.Batch) {
		select {
		case entered <- struct{}{}:
			<-release
		default:
		}
	}, func() { lost <- struct{}{} })
	defer sub.Close()
	follow(t, sub, "S1")
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	w := newWriter(server.Frames(t, bus.FramesConfig{}), "S1")
	w.mustPublish(t, 1)
	next(t, entered)
	for range 100 {
		w.mustPublish(t, 1)
	}
	free()
	next(t, lost)
	got, err := replayed(t, f, "S1", 1, 101)
	if err != nil {
		t.Fatal(err)
	}
	wantSeqs(t, got, 1, 101)
}

// A reader gets the batches of the sessions that it follows, each once for all followers of the reader, until the last
// follower stops. A name with a wildcard is not a session.
func TestOnlyFollowedSessionsAreDelivered(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	f := server.Frames(t, bus.FramesConfig{})
	got := make(chan string, 100)
	live := f.Live(func(b bus.Batch) { got <- fmt.Sprint(b.Session, " ", b.Seq) }, func() {})
	defer live.Close()
	one, two := newWriter(f, "S1"), newWriter(f, "S2")
	want := func(list ...string) {
		t.Helper()
		for _, w := range list {
			if b := next(t, got); b != w {
				t.Errorf("%s came, want %s", b, w)
			}
		}
	}
	end := follow(t, live, "S2")
	stops := []func(){follow(t, live, "S1"), follow(t, live, "S1")}
	one.mustPublish(t, 1)
	two.mustPublish(t, 1)
	want("S1 1", "S2 1")
	stops[0]()
	one.mustPublish(t, 1)
	want("S1 2")
	stops[1]()
	one.mustPublish(t, 1)
	two.mustPublish(t, 1)
	want("S2 2")
	follow(t, live, "S1")
	one.mustPublish(t, 1)
	want("S1 4")
	end()
	for _, name := range []string{"*", ">", "S1.output", "", "S 1"} {
		_, err := live.Follow(t.Context(), name)
		wantFault(t, err, fault.NotFound)
	}
	live.Close()
	if len(got) != 0 {
		t.Errorf("%s came too", <-got)
	}
}

// A missing server, and one that refuses the login, give an error of one sentence without the token.
func TestConnectSaysWhereItLooked(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret-word"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f, err := bus.OpenFrames(t.Context(), conn, bus.FramesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	newWriter(f, "S1").mustPublish(t, 1)
	for _, url := range []string{"nats://secret-word@127.0.0.1:1", "nats://wrong@" + server.Addr()} {
		_, err = bus.Connect(t.Context(), bus.Config{URL: url})
		f := wantFault(t, err, fault.Unavailable)
		if f.Msg == "" || strings.Contains(f.Error(), "secret-word") {
			t.Errorf("the error is %v", f)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = bus.Connect(ctx, bus.Config{URL: server.URL()})
	wantFault(t, err, fault.Cancelled)
}

var _ nats.InProcessConnProvider = (*embedded.Server)(nil)

// Writers that continue through restarts of the server have each frame stored once and in order, at whatever moment of
// a publish the restart comes.
func TestRestartsUnderLoadLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	const writers, batches = 4, 200
	server := bustest.Server(t)
	f := server.Frames(t, bus.FramesConfig{})
	published := make(chan struct{}, writers*batches)
	done := make(chan *writer, writers)
	for i := range writers {
		w := newWriter(server.Frames(t, bus.FramesConfig{}), fmt.Sprint("S", i))
		go func() {
			defer func() { done <- w }()
			for range batches {
				publishUntilTaken(t, w, 3)
				published <- struct{}{}
			}
		}()
	}
	for range 3 {
		for range writers * batches / 5 {
			next(t, published)
		}
		server.Stop()
		server.Start()
	}
	for range writers {
		w := next(t, done)
		got, err := replayed(t, f, w.session, 1, w.next-1)
		for errors.Is(err, fault.Unavailable) { // this connection may still be reconnecting
			got, err = replayed(t, f, w.session, 1, w.next-1)
		}
		if err != nil {
			t.Fatal(err)
		}
		wantSeqs(t, got, 1, 3*batches)
	}
}

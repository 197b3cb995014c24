package frames_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// A new holder marks the channels, continues behind the last published frame, and publishes the outbox frames that
// the stream lacks. From then on the stream refuses the earlier holder, which reports that it is lost.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		old := open(t, s, 1, frames.Start{})
		for i := range 3 {
			old.Emit(t.Context(), frame(i))
		}
		old.EmitDurable([]frames.Durable{durable(1, "run.started")})
		old.Flush(t.Context())

		// The crash came after frame 1 was published and before it was deleted from the outbox; frame 2 was not
		// published.
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

// Once the channel's messages have expired, the writer continues with the numbers it knows if it still holds the
// lease, and is lost otherwise.
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

// If the stream was lost during a holder's work, the numbers jump, so that no client takes other frames for ones it
// has seen. An empty stream that is older than the work does not make them jump.
func TestLostStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.made = time.UnixMilli(1000)
		for since, want := range map[int64]int64{0: 5, 2000: 5, 500: 5 + 1<<20} {
			w := open(t, s, 2, frames.Start{Stored: [2]int64{5, 0}, WorkSince: since})
			if got := w.Acked()[frames.Output]; got != want {
				t.Errorf("work since %d: continues after %d, want %d", since, got, want)
			}
			w.Close(t.Context())
		}
	})
}

// Frames emitted while the stream is unreachable get their numbers later and follow the last holder's unpublished
// frames.
func TestOpenDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		old := open(t, s, 1, frames.Start{})
		old.Emit(t.Context(), frame(0))
		old.Close(t.Context())
		s.down = true
		d := &recorder{}
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

// A writer that is closed before the channels are looked up ends at once.
func TestCloseBeforeOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		s.down = true
		w := frames.New((&recorder{}).config(s, 1), frames.Start{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Close(ctx)
		if err := w.Opened(t.Context()); !errors.Is(err, fault.Unavailable) {
			t.Errorf("opened: %v", err)
		}
	})
}

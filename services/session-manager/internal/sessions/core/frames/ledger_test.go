package frames_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// saver records its calls.
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

// The ledger saves published durable frames soon, several together, and numbers once per interval. It merges progress
// per session and keeps it if a save fails.
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
		l.Note(frames.Progress{Session: "c", Published: []int64{2}})
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		want = append(want, []frames.Progress{{Session: "c", Published: []int64{1, 2}}})
		if d := cmp.Diff(want, s.list()); d != "" {
			t.Errorf("not saved soon and together: %s", d)
		}
		cancel()
		<-ended
		l.Note(frames.Progress{Session: "d", Acked: [2]int64{1, 0}})
		if err := l.Flush(t.Context()); err != nil || len(s.list()) != 3 {
			t.Errorf("the last save: %v, %v", err, s.list())
		}
	})
}

// Steady progress does not postpone a save: numbers are saved once per interval.
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

// hangs is a store that blocks each save until its context ends.
type hangs struct{}

func (hangs) SaveProgress(ctx context.Context, _ []frames.Progress) error {
	<-ctx.Done()
	return ctx.Err()
}

// While a save hangs, a second one ends with its own context, so that a process can stop.
func TestLedgerOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := frames.NewLedger(hangs{}, time.Second, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		l.Note(frames.Progress{Session: "a", Published: []int64{1}})
		synctest.Wait()
		short, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		if err := l.Flush(short); err == nil {
			t.Error("a save beside one that hangs did not fail")
		}
		cancel()
		<-ended
	})
}

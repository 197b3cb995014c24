package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"kaged.dev/pkg/fault"
)

// script is a database that answers until silent is set and refuses writes with refusal.
type script struct {
	silent  atomic.Bool
	refusal atomic.Pointer[pgconn.PgError]
	resting atomic.Bool
	asks    atomic.Int32
	drops   atomic.Int32
}

func (s *script) ask(ctx context.Context) error {
	s.asks.Add(1)
	if s.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *script) try(context.Context) error {
	if refusal := s.refusal.Load(); refusal != nil {
		return refusal
	}
	return nil
}

func (s *script) rests() bool { return s.resting.Load() }

func (s *script) drop() { s.drops.Add(1) }

// A request that waits for a silent database, or for a connection, fails with unavailable within the stall time,
// whenever the silence begins; later requests fail at once until the database answers.
func TestWaitingRequestsEndWithinTheStallTime(t *testing.T) {
	t.Parallel()
	const stall = 5 * time.Second
	for _, after := range []time.Duration{
		0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond, time.Second,
	} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				h, db := NewHealth(slog.New(slog.NewTextHandler(&log, nil)), stall, nil), &script{}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); h.watch(ctx, db) }()
				time.Sleep(10*time.Second + after)
				synctest.Wait()
				db.silent.Store(true)
				began := time.Now()
				waiter, done, err := h.Bound(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer done()
				<-waiter.Done()
				if waited := time.Since(began); waited > stall {
					t.Errorf("got an end after %s, want it within %s", waited, stall)
				}
				if err := Stalled(waiter, context.Canceled); !errors.Is(err, fault.Unavailable) {
					t.Errorf("got %v for the waiter, want unavailable", err)
				}
				if _, _, err := h.Bound(t.Context()); !errors.Is(err, fault.Unavailable) {
					t.Errorf("got %v for a request of the stall, want unavailable", err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				db.silent.Store(false)
				time.Sleep(stall)
				synctest.Wait()
				if _, _, err := h.Bound(t.Context()); err != nil {
					t.Errorf("got %v after the database answered, want none", err)
				}
				stop()
				<-ended
				for what, want := range map[string]int{"the database does not answer": 1, "the database answers again": 1} {
					if got := strings.Count(log.String(), what); got != want {
						t.Errorf("got %d lines %q, want %d:\n%s", got, what, want, log.String())
					}
				}
			})
		})
	}
}

// While no statement waits for a database it is not asked. A statement that then waits for a silent one ends within the
// stall time, and from then on the database is asked until it answers again.
func TestARestingPoolIsNotAskedFor(t *testing.T) {
	t.Parallel()
	const stall = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		h, db := NewHealth(slog.New(slog.DiscardHandler), stall, nil), &script{}
		db.resting.Store(true)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); h.watch(ctx, db) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if asks, drops := db.asks.Load(), db.drops.Load(); asks != 0 || drops == 0 {
			t.Errorf("the database was asked %d times while no statement waited, and %d connections ended", asks, drops)
		}
		db.silent.Store(true)
		db.resting.Store(false)
		waiter, done, err := h.Bound(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		began := time.Now()
		<-waiter.Done()
		if waited := time.Since(began); waited > stall {
			t.Errorf("got an end after %s, want it within %s", waited, stall)
		}
		db.resting.Store(true)
		time.Sleep(time.Minute)
		if err := h.Err(); err == nil {
			t.Error("a silent database counts as one that answers because no statement waits for it")
		}
		db.silent.Store(false)
		time.Sleep(stall)
		synctest.Wait()
		if err := h.Err(); err != nil {
			t.Errorf("got %v after the database answered, want none", err)
		}
		stop()
		<-ended
	})
}

// While statements are answered, also with refusals of the database, it is not asked. A request that begins after the
// last answer ends within the stall time of that answer.
func TestAnsweredStatementsNeedNoQuestion(t *testing.T) {
	t.Parallel()
	const stall = 5 * time.Second
	for _, after := range []time.Duration{0, time.Millisecond, 200 * time.Millisecond, 299 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, db := NewHealth(slog.New(slog.DiscardHandler), stall, nil), &script{}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); h.watch(ctx, db) }()
				for i := range 40 {
					time.Sleep(300 * time.Millisecond)
					var err error
					if i%2 == 1 {
						err = &pgconn.PgError{Code: "23505"}
					}
					h.TraceQueryEnd(t.Context(), nil, pgx.TraceQueryEndData{Err: err})
				}
				answered := time.Now()
				if n := db.asks.Load(); n != 1 { // the one before the first statement
					t.Errorf("the database was asked %d times, want once", n)
				}
				db.silent.Store(true)
				time.Sleep(after)
				h.TraceQueryEnd(t.Context(), nil, pgx.TraceQueryEndData{Err: context.Canceled}) // is no answer
				waiter, done, err := h.Bound(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer done()
				<-waiter.Done()
				if waited := time.Since(answered); waited > stall {
					t.Errorf("got an end %s after the last answer, want it within %s", waited, stall)
				}
				stop()
				<-ended
			})
		})
	}
}

// Refused writes make the database unhealthy and are logged with their cause, once a minute for any number of failed
// statements; the first accepted write ends that, with a log entry.
func TestRefusedWritesAreLogged(t *testing.T) {
	t.Parallel()
	for code, reason := range map[string]string{
		"53100": "its disk is full", "58030": "its disk reports errors", "25006": "it is read-only",
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				refusal := &pgconn.PgError{Code: code, Message: "could not extend file"}
				h, db := NewHealth(slog.New(slog.NewTextHandler(&log, nil)), 5*time.Second, nil), &script{}
				db.refusal.Store(refusal)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); h.watch(ctx, db) }()
				for range 30 {
					h.TraceQueryEnd(t.Context(), nil, pgx.TraceQueryEndData{Err: refusal})
				}
				if err := h.Err(); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), reason) {
					t.Errorf("got %v, want unavailable with %q", err, reason)
				}
				time.Sleep(90 * time.Second)
				synctest.Wait()
				if got := strings.Count(log.String(), "the database refuses writes"); got != 2 ||
					!strings.Contains(log.String(), reason) {
					t.Errorf("got %d lines in 90 s, want 2 that name the reason %q:\n%s", got, reason, log.String())
				}
				db.refusal.Store(nil)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if err := h.Err(); err != nil {
					t.Errorf("got %v after an accepted write, want none", err)
				}
				stop()
				<-ended
				if !strings.Contains(log.String(), "the database takes writes again") || db.drops.Load() > 0 {
					t.Errorf("got %d new connections and the log\n%s", db.drops.Load(), log.String())
				}
			})
		})
	}
}

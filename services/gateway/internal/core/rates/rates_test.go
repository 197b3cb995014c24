package rates_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/internal/core/rates"
)

// store has some tokens and counts the queries.
type store struct {
	tokens, asked int
	err           error
}

func (s *store) Take(_ context.Context, _ string, wanted int) (int, time.Duration, error) {
	s.asked++
	if s.err != nil {
		return 0, 0, s.err
	}
	n := min(wanted, s.tokens)
	s.tokens -= n
	return n, 1500 * time.Microsecond, nil
}

func allowed(t *testing.T, l *rates.Limiter, limit string, tries int) (n int) {
	t.Helper()
	for range tries {
		err := l.Allow(t.Context(), "ada", limit)
		if err == nil {
			n++
		} else if f := fault.From(err); f.Code != fault.RateLimited || f.Details["retry_after_ms"] != int64(2) {
			t.Fatal(err)
		}
	}
	return n
}

// As many requests pass as there are tokens. Tokens of the general limit are taken in batches of twenty. After a
// refusal the store is not queried before the retry time.
func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, asked := range map[string]int{rates.General: 4, "messages": 46} {
			s := &store{tokens: 45}
			l := rates.New(s, slog.New(slog.DiscardHandler))
			if n := allowed(t, l, limit, 60); n != 45 || s.asked != asked {
				t.Errorf("%s: %d of 45 passed, after %d questions, want %d", limit, n, s.asked, asked)
			}
			time.Sleep(1500 * time.Microsecond)
			s.tokens = 1
			if n := allowed(t, l, limit, 1); n != 1 {
				t.Errorf("%s: %d passed after the wait", limit, n)
			}
		}
	})
}

// While tokens cannot be taken, every request passes and the store is queried once per second.
func TestFailsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{err: errors.New("away")}
		l := rates.New(s, slog.New(slog.DiscardHandler))
		if n := allowed(t, l, "messages", 50); n != 50 || s.asked != 1 {
			t.Errorf("%d passed, after %d questions", n, s.asked)
		}
		time.Sleep(time.Second)
		s.err = nil
		if n := allowed(t, l, "messages", 5); n != 0 {
			t.Errorf("%d passed without a token", n)
		}
	})
	if err := (*rates.Limiter)(nil).Allow(t.Context(), "ada", rates.General); err != nil {
		t.Error(err)
	}
}

// Package rates holds operators to their rate limits, which all gateways share.
//
// Tokens of a limit are taken where they are kept, those of the general limit in batches: a token that was taken and
// not used stays with this gateway. While they cannot be taken every request passes, because a limit protects a part
// that is away then.
package rates

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
)

// General is the limit of requests without one of their own.
const General = "requests"

const (
	// batch is how many tokens of the general limit are taken at once.
	batch = 20
	// patience bounds taking them.
	patience = time.Second
	// opened is how long every request passes after tokens could not be taken.
	opened = time.Second
	// most bounds the operators that are kept.
	most = 4096
)

// Taker takes tokens of a limit of the operator of ctx. It returns how many it took, or when there is one again.
type Taker interface {
	Take(ctx context.Context, limit string, wanted int) (taken int, retry time.Duration, err error)
}

// Limiter says which requests pass. It is safe for concurrent use; the nil Limiter lets every request pass.
type Limiter struct {
	taker Taker
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	buckets map[key]*bucket
	open    time.Time // until then every request passes
}

type key struct{ owner, limit string }

// bucket is this gateway's part of a limit of an operator.
type bucket struct {
	mu sync.Mutex // held while tokens are taken: one request asks for all that wait
	// left are taken tokens, and refused says until when there are no more.
	left    int
	refused time.Time
}

// New returns a limiter.
func New(taker Taker, log *slog.Logger) *Limiter {
	return &Limiter{taker: taker, log: log, buckets: map[key]*bucket{}}
}

// Allow fails with rate_limited (details.retry_after_ms) for a request of an operator that comes too soon.
func (l *Limiter) Allow(ctx context.Context, owner, limit string) error {
	if l == nil {
		return nil
	}
	b := l.bucket(key{owner, limit})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left > 0 {
		b.left--
		return nil
	}
	if wait := time.Until(b.refused); wait > 0 {
		return refusal(limit, wait)
	}
	if l.passes() {
		return nil
	}
	wanted := 1
	if limit == General {
		wanted = batch
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	taken, retry, err := l.taker.Take(bounded, limit, wanted)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		l.pass(err)
		return nil
	case taken == 0:
		b.refused = time.Now().Add(retry)
		return refusal(limit, retry)
	}
	b.left = taken - 1
	return nil
}

func (l *Limiter) bucket(k key) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[k]
	if b == nil {
		if len(l.buckets) >= most {
			clear(l.buckets) // the tokens in them are lost, which is the safe side
		}
		b = new(bucket)
		l.buckets[k] = b
	}
	return b
}

// passes reports whether every request passes now.
func (l *Limiter) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.open)
}

// pass lets every request pass for a while.
func (l *Limiter) pass(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = time.Now().Add(opened)
	l.log.Warn("rate limits are not in force: tokens cannot be taken", "error", err)
}

func refusal(limit string, wait time.Duration) error {
	ms := max(1, int64((wait+time.Millisecond-1)/time.Millisecond))
	return fault.New(fault.RateLimited, "Too many requests; try again in %d ms.", ms).With("retry_after_ms",
		ms).With("limit", limit)
}

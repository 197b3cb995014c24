// Package rates limits the request rates of operators. All gateways share the limits.
//
// Tokens are taken from session-manager, those of the general limit in batches: this gateway keeps the tokens of a
// batch that are left over. While tokens cannot be taken, every request passes, because the limits protect the
// service that is then unavailable.
package rates

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
)

// General is the limit of requests without a limit of their own.
const General = "requests"

const (
	// batch is the number of tokens of the general limit that are taken at once.
	batch = 20
	// patience is the timeout for taking tokens.
	patience = time.Second
	// opened is the time during which every request passes after a failure to take tokens.
	opened = time.Second
	// most is the maximum number of buckets in memory.
	most = 4096
)

// Taker takes tokens of a limit for the operator of ctx. It returns the number of tokens taken. If that is 0, retry
// is the time until the next token.
type Taker interface {
	Take(ctx context.Context, limit string, wanted int) (taken int, retry time.Duration, err error)
}

// Limiter decides which requests pass. It is safe for concurrent use. A nil Limiter lets every request pass.
type Limiter struct {
	taker Taker
	log   *slog.Logger

	mu      sync.Mutex // guards the fields below
	buckets map[key]*bucket
	open    time.Time // every request passes until this time
}

type key struct{ owner, limit string }

// bucket is this gateway's state of one operator's limit.
type bucket struct {
	mu sync.Mutex // held while tokens are taken, so that waiting requests share one query
	// left is the number of unused tokens. Until refused, no token is available.
	left    int
	refused time.Time
}

// New returns a limiter.
func New(taker Taker, log *slog.Logger) *Limiter {
	return &Limiter{taker: taker, log: log, buckets: map[key]*bucket{}}
}

// Allow takes a token. Without one it fails with rate_limited and details.retry_after_ms.
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
			clear(l.buckets) // Their tokens are lost. That lets fewer requests pass, never more.
		}
		b = new(bucket)
		l.buckets[k] = b
	}
	return b
}

// passes reports whether every request passes at this time.
func (l *Limiter) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.open)
}

// pass lets every request pass for the time opened.
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

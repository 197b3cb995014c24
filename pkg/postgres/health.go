package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
)

// Longest interval of the checks of [Health.Watch], and the interval at which a lasting refusal is logged again.
const (
	watchEvery = time.Second
	logEvery   = time.Minute
)

// Health tracks whether a database answers, and whether it accepts writes. It learns both from the pool's statements.
// If none ends for a while, it asks the database itself, if need be on a connection of its own, so that a full pool
// does not count. It does not ask while a pool that lets its last connection end
// is unused, and the last look was good. Create it with [NewHealth], pass it to [Open] and run [Health.Watch]; it
// is safe for concurrent use.
type Health struct {
	log   *slog.Logger
	stall time.Duration
	probe func(context.Context, pgx.Tx) error
	begun time.Time
	heard atomic.Int64 // time of the last answer, as a duration since begun; 0 before the first

	mu      sync.Mutex // guards the fields below
	stalled error      // non-nil while it does not answer
	refusal error      // non-nil while it refuses writes
	logged  time.Time  // time of the last log entry about refusal
	calls   map[*call]struct{}
}

// call is work that is cancelled when the database stalls.
type call struct{ cancel context.CancelCauseFunc }

// NewHealth returns the health of a database that counts as stalled after a silence of stall. probe writes as much as
// the refused work; its transaction is rolled back.
func NewHealth(log *slog.Logger, stall time.Duration, probe func(context.Context, pgx.Tx) error) *Health {
	return &Health{log: log, stall: stall, probe: probe, begun: time.Now(), calls: map[*call]struct{}{}}
}

// Err returns nil, or fault.Unavailable with the reason: the database does not answer, or it refuses writes.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stalled != nil {
		return h.stalled
	}
	return h.refusal
}

// Bound returns a context that ends, with fault.Unavailable as its cause, when the database stalls. While the database
// is stalled it fails with that error at once, because work must not queue for connections that are never returned.
func (h *Health) Bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stalled != nil {
		return nil, nil, h.stalled
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{cancel}
	h.calls[c] = struct{}{}
	return ctx, func() {
		h.mu.Lock()
		delete(h.calls, c)
		h.mu.Unlock()
		cancel(nil)
	}, nil
}

// Call calls f within [Health.Bound]. If a stall ended the call, it fails with the stall.
func (h *Health) Call(ctx context.Context, f func(context.Context) (any, error)) (any, error) {
	bounded, done, err := h.Bound(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	result, err := f(bounded)
	if err != nil && bounded.Err() != nil {
		err = Stalled(bounded, err)
	}
	return result, err
}

// Watch checks the database at least every second until ctx ends.
func (h *Health) Watch(ctx context.Context, pool *pgxpool.Pool) {
	line := newPoolLine(pool, h.probe)
	defer line.drop()
	h.watch(ctx, line)
}

// line is the watcher's way to the database.
type line interface {
	// ask fails with context.DeadlineExceeded if the database does not answer, and otherwise if it cannot be reached.
	ask(ctx context.Context) error
	// try writes and rolls the write back.
	try(ctx context.Context) error
	// rests reports that no statement waits, and that asking would keep open an unused connection.
	rests() bool
	// drop closes the watcher's own connection; the next ask opens another if it needs one.
	drop()
}

// watch checks l until ctx ends.
func (h *Health) watch(ctx context.Context, l line) {
	every := min(watchEvery, h.stall/5)
	for range (retry.Pauses{First: every, Last: every}).Each(ctx) {
		h.look(ctx, l, every)
	}
}

// look checks l unless a statement was answered less than every ago. The time limit of the check is shortened by the
// time since the last answer. A request that begins right after an answer therefore ends within the stall time, whether
// it waits for a connection or not.
func (h *Health) look(parent context.Context, l line, every time.Duration) {
	limit := h.stall - every
	silence, heard := h.silence()
	if heard && silence < h.stall/2 {
		limit = h.stall - silence
	}
	if heard && silence < every {
		h.answers()
	} else if l.rests() && h.Err() == nil {
		l.drop()
		return
	} else if !h.ask(parent, l, limit) {
		return
	}
	if !h.refuses() {
		return
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	if err := l.try(ctx); err != nil {
		h.note(err)
	} else {
		h.takes()
	}
}

// ask asks the database and returns true if it answers.
func (h *Health) ask(parent context.Context, l line, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	err := l.ask(ctx)
	switch {
	case parent.Err() != nil:
	case err == nil:
		h.hear()
		h.answers()
		return true
	case errors.Is(err, context.DeadlineExceeded):
		l.drop()
		h.stalls(err)
	default:
		l.drop() // With an unreachable server every request fails by itself.
	}
	return false
}

func (h *Health) hear() { h.heard.Store(max(1, int64(time.Since(h.begun)))) }

// silence returns the time since the last answer, and false if there was none.
func (h *Health) silence() (time.Duration, bool) {
	heard := h.heard.Load()
	return time.Since(h.begun) - time.Duration(heard), heard > 0
}

func (h *Health) stalls(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stalled == nil {
		h.log.Error("the database does not answer; requests are refused until it does", "silent_for", h.stall, "error", cause)
	}
	h.stalled = unavailable(cause, "The database does not answer; try again shortly.")
	for c := range h.calls {
		c.cancel(h.stalled)
	}
	clear(h.calls)
}

func (h *Health) answers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stalled != nil {
		h.log.Info("the database answers again")
	}
	h.stalled = nil
}

func (h *Health) refuses() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refusal != nil
}

func (h *Health) takes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusal != nil {
		h.log.Info("the database takes writes again")
	}
	h.refusal = nil
}

// note records the result of a statement.
func (h *Health) note(err error) {
	if err == nil || sqlState(err) != "" {
		h.hear()
	}
	why := refusals[sqlState(err)]
	if why == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusal == nil || time.Since(h.logged) >= logEvery {
		h.log.Error("the database refuses writes", "reason", why, "error", err)
		h.logged = time.Now()
	}
	h.refusal = unavailable(err, "The database refuses writes: %s.", why)
}

// refusals are the SQLSTATEs of a database that answers but accepts no writes, with the next step.
var refusals = map[string]string{
	"53100":             "its disk is full; free some space",
	"58030":             "its disk reports errors; see the log of PostgreSQL",
	readOnlyTransaction: "it is read-only; connect to the primary",
}

// TraceQueryStart implements pgx.QueryTracer.
func (h *Health) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (h *Health) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	h.note(data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (h *Health) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (h *Health) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	h.note(data.Err)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (h *Health) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	h.note(data.Err)
}

// Stalled returns the stall that ended a context of [Health.Bound] and caused err, else err.
func Stalled(ctx context.Context, err error) error {
	var cause *fault.Error
	if err == nil || !errors.As(context.Cause(ctx), &cause) {
		return err
	}
	if code := fault.CodeOf(err); code == fault.Cancelled || code == fault.DeadlineExceeded {
		return cause
	}
	return err
}

// Close closes the pool and returns at the latest after limit: connections that wait for a silent database are returned
// only when it answers, or when the process ends.
func Close(pool *pgxpool.Pool, limit time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(limit):
	}
}

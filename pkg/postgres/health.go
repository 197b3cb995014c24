package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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

// Health tracks whether a database answers, and whether it accepts writes. It checks the first on its own connection,
// so that a full pool does not count, and learns the second from failed statements. Create it with [NewHealth], pass it
// to [Open] and run [Health.Watch]; it is safe for concurrent use.
type Health struct {
	log   *slog.Logger
	stall time.Duration
	probe func(context.Context, pgx.Tx) error

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
	return &Health{log: log, stall: stall, probe: probe, calls: map[*call]struct{}{}}
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
	line := &privateLine{config: pool.Config().ConnConfig.Copy(), probe: h.probe}
	line.config.Tracer = nil
	defer line.drop()
	h.watch(ctx, line)
}

// line is the watcher's own connection.
type line interface {
	// ask fails with context.DeadlineExceeded if the database does not answer, and otherwise if it cannot be reached.
	ask(ctx context.Context) error
	// try writes and rolls the write back.
	try(ctx context.Context) error
	// drop closes the connection; the next ask opens another.
	drop()
}

// watch checks l until ctx ends. The time limit of each check is shortened by the interval before it. A request that
// begins right after an answer therefore ends within the stall time, whether it waits for a connection or not.
func (h *Health) watch(ctx context.Context, l line) {
	every := min(watchEvery, h.stall/5)
	for range (retry.Pauses{First: every, Last: every}).Each(ctx) {
		h.look(ctx, l, h.stall-every)
	}
}

func (h *Health) look(parent context.Context, l line, limit time.Duration) {
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	err := l.ask(ctx)
	switch {
	case parent.Err() != nil:
		return
	case err == nil:
		h.answers()
	case errors.Is(err, context.DeadlineExceeded):
		l.drop()
		h.stalls(err)
		return
	default:
		l.drop() // With an unreachable server every request fails by itself.
		return
	}
	if !h.refuses() {
		return
	}
	ctx, cancel = context.WithTimeout(parent, limit)
	defer cancel()
	if err := l.try(ctx); err != nil {
		h.note(err)
	} else {
		h.takes()
	}
}

// privateLine is the [line] of Watch: a connection outside the pool, so that a full pool does not count as a silent
// database.
type privateLine struct {
	config *pgx.ConnConfig
	probe  func(context.Context, pgx.Tx) error
	conn   *pgx.Conn // nil for none
}

func (w *privateLine) ask(ctx context.Context) (err error) {
	if w.conn == nil {
		if w.conn, err = pgx.ConnectConfig(ctx, w.config); err != nil {
			w.conn = nil
			return err
		}
	}
	return w.conn.Ping(ctx)
}

func (w *privateLine) try(ctx context.Context) error {
	tx, err := w.conn.Begin(ctx)
	if err == nil {
		err = w.probe(ctx, tx)
		_ = tx.Rollback(ctx)
	}
	return err
}

// drop closes the connection and does not wait for a silent server.
func (w *privateLine) drop() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.conn.Close(ctx)
	w.conn = nil
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

// note records the failure of a statement.
func (h *Health) note(err error) {
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

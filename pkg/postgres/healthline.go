package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolLine is the [line] of [Health.Watch]. It asks on an idle connection of the pool. If there is none, or if it stays
// silent, it asks on a connection of its own: the database may answer behind a full pool or a broken connection.
// It closes its own connection once the pool's is enough again, because each costs the server some 10 MB.
type poolLine struct {
	pool   *pgxpool.Pool
	config *pgx.ConnConfig
	probe  func(context.Context, pgx.Tx) error
	ends   bool      // the pool ends all unused connections
	conn   *pgx.Conn // nil for none
}

func newPoolLine(pool *pgxpool.Pool, probe func(context.Context, pgx.Tx) error) *poolLine {
	config := pool.Config()
	ends := config.MaxConnIdleTime <= shortIdle && config.MinConns == 0
	l := &poolLine{pool: pool, config: config.ConnConfig, probe: probe, ends: ends}
	l.config.Tracer = nil
	return l
}

func (l *poolLine) rests() bool {
	stat := l.pool.Stat()
	return l.ends && stat.AcquiredConns() == 0 && stat.ConstructingConns() == 0
}

func (l *poolLine) ask(ctx context.Context) error {
	if l.askPool(ctx) {
		l.drop()
		return nil
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	return l.conn.Ping(ctx)
}

// askPool asks on an idle connection of the pool, for at most half the time. It returns false without an answer.
func (l *poolLine) askPool(ctx context.Context) bool {
	if l.pool.Stat().IdleConns() == 0 {
		return false
	}
	ctx, cancel := half(ctx)
	defer cancel()
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return false
	}
	defer conn.Release()
	return conn.Ping(ctx) == nil
}

// half returns a context that ends after half the time left to ctx.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

func (l *poolLine) connect(ctx context.Context) (err error) {
	if l.conn == nil {
		if l.conn, err = pgx.ConnectConfig(ctx, l.config); err != nil {
			l.conn = nil
		}
	}
	return err
}

func (l *poolLine) try(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	tx, err := l.conn.Begin(ctx)
	if err == nil {
		err = l.probe(ctx, tx)
		_ = tx.Rollback(ctx)
	}
	return err
}

// drop closes the own connection and does not wait for a silent server.
func (l *poolLine) drop() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Line is the way of [Health.Watch] to the database of a pool.
type Line struct{ line *poolLine }

// NewLine returns the line of pool.
func NewLine(pool *pgxpool.Pool) Line { return Line{newPoolLine(pool, nil)} }

// Ask asks the database.
func (l Line) Ask(ctx context.Context) error { return l.line.ask(ctx) }

// Own returns whether the line has a connection of its own.
func (l Line) Own() bool { return l.line.conn != nil }

// Drop closes it.
func (l Line) Drop() { l.line.drop() }

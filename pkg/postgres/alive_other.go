//go:build !unix

package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// suspect reports whether a connection is to be checked before use.
func suspect(_ *pgx.Conn, idle time.Duration) bool { return idle >= time.Second }

//go:build !unix

package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// suspect reports whether a connection must prove that it works before it is handed out.
func suspect(_ *pgx.Conn, idle time.Duration) bool { return idle >= time.Second }

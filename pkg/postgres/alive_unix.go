//go:build unix

package postgres

import (
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// longIdle is after how long a connection is asked whether it still works: a peer that vanished without closing it
// cannot be seen otherwise.
const longIdle = 30 * time.Second

// suspect reports whether a connection must prove that it works before it is handed out. An idle
// connection has no data to read, unless the server has said goodbye or the other end is gone;
// looking costs a microsecond, asking a round trip.
func suspect(conn *pgx.Conn, idle time.Duration) bool {
	if idle >= longIdle {
		return true
	}
	sc, ok := conn.PgConn().Conn().(syscall.Conn)
	if !ok {
		return idle >= time.Second // TLS keeps what it has read to itself.
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN
	})
	return err != nil || !quiet
}

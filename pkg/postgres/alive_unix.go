//go:build unix

package postgres

import (
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// longIdle is the idle time after which a connection is checked by a round trip. A peer that vanished without closing
// it cannot be detected otherwise.
const longIdle = 30 * time.Second

// suspect reports whether a connection is to be checked before use. An idle connection has no data to read, unless the
// server has closed it or the peer is gone. This test takes a microsecond, a check a round trip.
func suspect(conn *pgx.Conn, idle time.Duration) bool {
	if idle >= longIdle {
		return true
	}
	sc, ok := conn.PgConn().Conn().(syscall.Conn)
	if !ok {
		return idle >= time.Second // TLS buffers read data, so the test does not work.
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

//go:build unix

package kit

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// ignoreStops makes a read of the terminal in the background fail instead of stopping the process, until restore is
// called.
func ignoreStops() (restore func()) {
	signal.Ignore(unix.SIGTTIN)
	return func() { signal.Reset(unix.SIGTTIN) }
}

// foreground reports whether this process may read the terminal: the kernel stops a background process that reads it.
func foreground(tty *os.File) bool {
	raw, err := tty.SyscallConn() // Fd would make reads block, so that a deadline would no longer end them
	if err != nil {
		return false
	}
	group := 0
	if raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }) != nil || err != nil {
		return false
	}
	return group == unix.Getpgrp()
}

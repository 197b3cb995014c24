package kit

import (
	"os"

	"golang.org/x/sys/unix"
)

// DiscardInput drops unread input of a terminal. It does not change other files.
func DiscardInput(terminal *os.File) {
	raw, err := terminal.SyscallConn() // Fd would make reads block, so that Close would no longer end them
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
}

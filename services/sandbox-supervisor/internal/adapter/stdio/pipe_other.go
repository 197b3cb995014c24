//go:build unix && !linux

package stdio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe returns a pipe that no other process inherits.
func pipe() (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock() // the system may have no atomic close-on-exec flag
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return -1, -1, err
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return p[0], p[1], nil
}

package stdio

import "golang.org/x/sys/unix"

// pipe returns a pipe that no other process inherits.
func pipe() (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	return p[0], p[1], nil
}

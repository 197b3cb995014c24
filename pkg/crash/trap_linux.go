//go:build faults

package crash

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// trapFile is read once, since the environment of a process does not change.
var trapFile = os.Getenv(TrapVariable)

// spring kills the victim of a trap at p, and returns when it has ended. Of several processes at p, the one that
// removes the file does this.
func spring(p Point) {
	if trapFile == "" {
		return
	}
	text, err := os.ReadFile(trapFile)
	if err != nil {
		return // no trap is set
	}
	var point Point
	var victim int
	if _, err := fmt.Sscan(string(text), &point, &victim); err != nil || point != p || os.Remove(trapFile) != nil {
		return
	}
	fd, err := unix.PidfdOpen(victim, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
	}
}

package beneath

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const oPath = unix.O_PATH

var errNoOpenat2 = errors.New("openat2 is not available")

// hasNoOpenat2 is true once the kernel, or a filter, has refused the call as unknown.
var hasNoOpenat2 atomic.Bool

// raceRetries is the number of retries after EAGAIN, the kernel's answer during a concurrent rename.
const raceRetries = 32

func openat2(dir int, rel string, flags int, mode uint32) (int, error) {
	if hasNoOpenat2.Load() {
		return -1, errNoOpenat2
	}
	how := unix.OpenHow{
		Flags: uint64(flags), Mode: uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range raceRetries {
		fd, err := unix.Openat2(dir, rel, &how)
		switch err {
		case unix.EAGAIN, unix.EINTR:
			continue
		case unix.ENOSYS:
			hasNoOpenat2.Store(true)
			return -1, errNoOpenat2
		case unix.EPERM:
			// A container's filter answers unknown calls with EPERM. The walk finds out whether the EPERM was real.
			return -1, errNoOpenat2
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

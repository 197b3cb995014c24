//go:build !linux

package beneath

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Only Linux has O_PATH. On other systems passing through a folder needs read permission.
const oPath = unix.O_RDONLY | unix.O_NONBLOCK

var errNoOpenat2 = errors.New("openat2 is not available")

func openat2(int, string, int, uint32) (int, error) { return -1, errNoOpenat2 }

//go:build !linux

package beneath

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Elsewhere than on Linux passing through a folder is reading it.
const oPath = unix.O_RDONLY | unix.O_NONBLOCK

var errNoOpenat2 = errors.New("openat2 is not available")

func openat2(int, string, int, uint32) (int, error) { return -1, errNoOpenat2 }

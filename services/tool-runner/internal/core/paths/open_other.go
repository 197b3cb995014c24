//go:build !linux

package paths

import (
	"errors"

	"golang.org/x/sys/unix"
)

// oPath opens a folder for passing through it; elsewhere than on Linux that is reading.
const oPath = unix.O_RDONLY

var errNoOpenat2 = errors.New("openat2 is not available")

func openat2(int, string, int, uint32) (int, error) { return -1, errNoOpenat2 }

// whereIs would return the path of an open folder; only Linux says it.
func whereIs(int) string { return "" }

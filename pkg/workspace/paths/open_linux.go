package paths

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// whereIs returns the absolute path of an open folder, without links; "" where the system does not say, or not for
// certain: of a folder that is gone, or that is called as if it were.
func whereIs(fd int) string {
	var b [unix.PathMax]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), b[:])
	name := string(b[:max(n, 0)])
	if err != nil || n == len(b) || !strings.HasPrefix(name, "/") || strings.HasSuffix(name, " (deleted)") {
		return ""
	}
	return name
}

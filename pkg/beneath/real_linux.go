package beneath

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenReal opens an absolute path that leads through no link, so that the path is that of the opened file. It fails for
// every other path, and on a system without openat2.
func OpenReal(name string, flags int) (int, error) {
	if hasNoOpenat2.Load() {
		return -1, errNoOpenat2
	}
	if !filepath.IsAbs(name) {
		return -1, unix.EINVAL
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	return Retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, name, &how) })
}

// Package beneath opens files and folders below a folder without following any link.
//
// It uses openat2 with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS; on a system without it, it walks
// the path with O_NOFOLLOW, one component at a time. If a part of a path becomes a link after the path was checked, the
// opening fails; it is never redirected.
package beneath

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Path is the flag for a descriptor that serves only to open paths below it and to stat it. It needs no read
// permission.
const Path = oPath

// Open opens rel, which is relative and clean, below the folder dir. flags and mode are those of open(2). The
// descriptor is the caller's; give O_CLOEXEC. Open fails with ELOOP or ENOTDIR if a component is a link, and with EXDEV
// or EINVAL if one leads out of dir.
func Open(dir int, rel string, flags int, mode uint32) (int, error) {
	fd, err := openat2(dir, rel, flags, mode)
	if !errors.Is(err, errNoOpenat2) {
		return fd, err
	}
	return openWalking(dir, rel, flags, mode)
}

// openWalking does the work of openat2 on a system without it, one component at a time.
func openWalking(dir int, rel string, flags int, mode uint32) (int, error) {
	if strings.HasPrefix(rel, "/") {
		return -1, unix.EXDEV
	}
	parent, name := path.Split(rel)
	at, err := unix.Dup(dir)
	if err != nil {
		return -1, err
	}
	for part := range strings.SplitSeq(parent, "/") {
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			unix.Close(at)
			return -1, unix.EXDEV
		}
		next, err := Retry(func() (int, error) {
			return unix.Openat(at, part, oPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	defer unix.Close(at)
	if name == "" || name == ".." {
		return -1, unix.EINVAL
	}
	fd, err := Retry(func() (int, error) { return unix.Openat(at, name, flags|unix.O_NOFOLLOW, mode) })
	if err != nil || flags&oPath == 0 {
		return fd, err
	}
	// With Path, openat opens the link itself. Refuse it, as openat2 does.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		unix.Close(fd)
		return -1, unix.ELOOP
	}
	return fd, nil
}

// Retry repeats a system call while it fails with EINTR.
func Retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

package change

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
)

// copyAttributes gives a file the extended attributes of the file name: access lists and users'
// attributes. It reports whether all could be copied, except those of security modules, which the
// system sets itself. plain leaves out the file's capabilities.
func copyAttributes(dir int, name string, to int, plain bool) bool {
	if hasNoAttributes(dir, name) {
		return true
	}
	from, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(from)
	n, err := unix.Flistxattr(from, nil)
	if n == 0 || err != nil {
		return err == nil || errors.Is(err, unix.ENOTSUP)
	}
	list := make([]byte, n)
	if n, err = unix.Flistxattr(from, list); err != nil {
		return false
	}
	all := true
	for attr := range bytes.SplitSeq(list[:n], []byte{0}) {
		key := string(attr)
		if key == "" || plain && key == "security.capability" {
			continue
		}
		ok := copyAttribute(from, to, key)
		all = all && (ok || strings.HasPrefix(key, "security."))
	}
	return all
}

// hasNoListxattrat is true once the kernel has refused the call as unknown.
var hasNoListxattrat atomic.Bool

// hasNoAttributes reports whether a file certainly has no extended attributes. It opens no file, but needs Linux 6.13.
func hasNoAttributes(dir int, name string) bool {
	if hasNoListxattrat.Load() {
		return false
	}
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return false
	}
	n, _, errno := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(dir), uintptr(unsafe.Pointer(path)),
		unix.AT_SYMLINK_NOFOLLOW, 0, 0, 0)
	if errno == unix.ENOSYS {
		hasNoListxattrat.Store(true)
	}
	return errno == 0 && n == 0
}

func copyAttribute(from, to int, key string) bool {
	size, err := unix.Fgetxattr(from, key, nil)
	if err != nil {
		return false
	}
	value := make([]byte, size)
	if size, err = unix.Fgetxattr(from, key, value); err != nil {
		return false
	}
	return unix.Fsetxattr(to, key, value[:size], 0) == nil
}

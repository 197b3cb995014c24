package change

import (
	"bytes"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
)

// copyAttributes gives a file the extended attributes of the file name: access lists and users'
// attributes. It reports whether all could be copied, except those of security modules, which the
// system sets itself. plain leaves out the file's capabilities.
func copyAttributes(dir int, name string, to int, plain bool) bool {
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

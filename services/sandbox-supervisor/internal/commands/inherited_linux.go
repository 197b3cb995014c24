package commands

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited closes the descriptors above last that this process inherited. They are exactly those without
// close-on-exec, which Go sets on every file it opens.
func CloseInherited(last int) error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= last {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

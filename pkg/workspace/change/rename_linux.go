package change

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
)

// hasNoRenameat2 makes renames work as on a file system that knows only the plain one.
var hasNoRenameat2 atomic.Bool

func renameat2(from int, name string, to int, newName string, flags uint) error {
	if hasNoRenameat2.Load() {
		return unix.ENOSYS
	}
	return unix.Renameat2(from, name, to, newName, flags)
}

// renameNew renames a file to a name that nothing has; else it fails with EEXIST.
func renameNew(from int, name string, to int, newName string) error {
	err := renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
	if unsupported(err) {
		return linkNew(from, name, to, newName)
	}
	return err
}

// exchange lets two files of a folder exchange their names, at one moment for each name.
func exchange(dir int, a, b string) error {
	err := renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE)
	if unsupported(err) {
		return exchangeByLinks(dir, a, b)
	}
	return err
}

// unsupported reports whether the file system, or the kernel's filter, does not know a way to rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

// settle sees to it that a power failure after a rename finds the new file's content and not an empty file under the name.
// A file system that writes data before the names that lead to it (ext4 as it is mounted by default) only has to be told to
// begin, which waits for nothing; tmpfs has nothing to lose; any other has to be waited for. That the rename itself is on the
// disk is not waited for: as with an editor, a power failure may take back what was done a moment before.
func settle(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	switch fs.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return nil
	case unix.EXT4_SUPER_MAGIC:
		return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
	_, err := beneath.Retry(func() (int, error) { return 0, unix.Fdatasync(fd) })
	return err
}

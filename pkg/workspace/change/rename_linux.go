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

// renameNew renames a file to a free name; else it fails with EEXIST.
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

// settle makes sure that after a power failure a renamed file has its new content and is not empty.
// A file system that writes data before names (ext4 as mounted by default) only has to be told to
// begin, without waiting; tmpfs has no data to lose; any other is waited for. The rename itself is
// not waited for: as with an editor, a power failure may take back a change of the last moments.
// settle reports whether it has waited. The file is one of the folder, so its file system is asked
// for once.
func (f *folder) settle(fd int) (waited bool, err error) {
	f.once.Do(func() {
		var fs unix.Statfs_t
		f.err = unix.Fstatfs(fd, &fs)
		f.kind = int64(fs.Type)
	})
	switch {
	case f.err != nil:
		return false, f.err
	case f.kind == unix.TMPFS_MAGIC, f.kind == unix.RAMFS_MAGIC:
		return false, nil
	case f.kind == unix.EXT4_SUPER_MAGIC:
		return false, unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
	_, err = beneath.Retry(func() (int, error) { return 0, unix.Fdatasync(fd) })
	return true, err
}

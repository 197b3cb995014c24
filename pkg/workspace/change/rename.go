package change

import (
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/workspace/paths"
)

// linkNew is renameNew where the system has no such call. Without hard links either, it checks
// whether the name is free and then takes it, and another process can take it in between.
func linkNew(from int, name string, to int, newName string) error {
	switch err := unix.Linkat(from, name, to, newName, 0); err {
	case nil:
		return unix.Unlinkat(from, name, 0)
	case unix.EPERM, unix.ENOTSUP, unix.ENOSYS, unix.EMLINK:
	default:
		return err
	}
	if unix.Faccessat(to, newName, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	return unix.Renameat(from, name, to, newName)
}

// asideOf is where the file called b waits while it exchanges its name with a.
func asideOf(a string) string { return a + ".x" + paths.TempSuffix }

// exchangeByLinks is exchange where the system has no such call: b is never without a file, a is for a moment.
func exchangeByLinks(dir int, a, b string) error {
	aside := asideOf(a)
	switch err := unix.Linkat(dir, b, dir, aside, 0); err {
	case nil:
	case unix.EPERM, unix.ENOTSUP, unix.ENOSYS:
		// No hard links either: then b is without a file for a moment too.
		if err := unix.Renameat(dir, b, dir, aside); err != nil {
			return err
		}
	default:
		return err
	}
	if err := unix.Renameat(dir, a, dir, b); err != nil {
		_ = unix.Renameat(dir, aside, dir, b)
		return err
	}
	return unix.Renameat(dir, aside, dir, a)
}

// completeExchange brings an interrupted exchange by links to its beginning or its end, the nearer
// of both.
func completeExchange(dir int, a, b string) error {
	aside := asideOf(a)
	waits := versionAt(dir, aside)
	switch {
	case waits == Version{}:
		return nil
	case versionAt(dir, b) == Version{}:
		return unix.Renameat(dir, aside, dir, b)
	case versionAt(dir, b) == waits:
		return unix.Unlinkat(dir, aside, 0)
	case versionAt(dir, a) == Version{}:
		return unix.Renameat(dir, aside, dir, a)
	}
	return nil
}

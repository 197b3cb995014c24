package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// The rights of Landlock on files, by purpose.
const (
	landRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// landFile are the rights that a rule about a file may have.
	landFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landFirst = 1<<13 - 1 // the rights of the first version
	// landWrite creates, changes and removes everything except devices.
	landWrite = (landFirst | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE) &^
		(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
)

// landlock confines this thread and its descendants, as a second barrier: visible mounts can be read and writable
// mounts written, whatever other descriptors a process obtains. It also confines signals and abstract sockets to the
// cage. Kernels without Landlock have only the first barrier.
func landlock(plan blueprint.Plan) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == unix.ENOSYS || errno == unix.EOPNOTSUPP {
		return nil
	}
	if errno != 0 {
		return errno
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landFirst}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("making rules: %w", errno)
	}
	defer unix.Close(int(set))
	allow := func(path string, rights uint64) error {
		if err := landRule(int(set), path, rights&attr.Handled_access_fs); err != nil {
			return fmt.Errorf("the rule about %s: %w", path, err)
		}
		return nil
	}
	if err := allow("/", landRead); err != nil {
		return err
	}
	for _, dir := range []string{"/dev", "/proc"} {
		if err := allow(dir, landDevice); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev/shm", blueprint.Home} {
		if err := allow(dir, landWrite); err != nil {
			return err
		}
	}
	for _, bind := range plan.Binds {
		rights := uint64(landWrite)
		if !bind.Dir {
			rights = landFile
		}
		if !bind.Writable {
			continue
		}
		if err := allow(bind.Path, rights); err != nil {
			return err
		}
	}
	// For this thread only: domains that threads enter separately do not trust each other.
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// landRule permits rights on a folder with its contents, or on a file.
func landRule(set int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(
		unix.SYS_LANDLOCK_ADD_RULE,
		uintptr(set),
		unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)),
		0,
		0,
		0,
	)
	runtime.KeepAlive(&rule)
	if errno != 0 {
		return errno
	}
	return nil
}

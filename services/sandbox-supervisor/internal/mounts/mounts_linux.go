package mounts

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The attributes of mounts in a cage, without device files and set-id programs.
const (
	Writable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	ReadOnly = Writable | unix.MOUNT_ATTR_RDONLY
	// Device is for the file of one device.
	Device = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// Find returns a descriptor of the file at a path below dir, opened with O_PATH, and its status. A path with a link in
// it is refused.
func Find(dir int, path string) (fd int, st unix.Stat_t, err error) {
	for {
		fd, err = unix.Openat2(dir, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: a concurrent rename
			break
		}
	}
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// Clone returns a separate mount of the file or folder of fd, with all mounts in it: detached, private, with
// attributes. Unless userns is -1, its owners are mapped by that user namespace.
func Clone(fd int, attr uint64, userns int) (tree int, err error) {
	tree, err = unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	err = unix.MountSetattr(
		tree,
		"",
		unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE},
	)
	if err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	if userns < 0 {
		return tree, nil
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns),
	})
	if err != nil {
		unix.Close(tree)
		return -1, &MapError{err}
	}
	return tree, nil
}

// MapError reports a file system that cannot map owners.
type MapError struct{ err error }

func (e *MapError) Error() string { return "mapping owners: " + e.err.Error() }

// Unwrap returns the system's error.
func (e *MapError) Unwrap() error { return e.err }

// Attach attaches a detached mount at the file or folder of target.
func Attach(tree, target int) error {
	if err := unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

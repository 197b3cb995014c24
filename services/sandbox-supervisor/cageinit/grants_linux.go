package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
	"kaged.dev/services/sandbox-supervisor/internal/mounts"
)

// hidden covers the paths hidden from every cage.
func (b *builder) hidden() error {
	for _, p := range b.plan.Hidden {
		if err := b.hide(p); err != nil {
			return fmt.Errorf("hiding %s: %w", p, err)
		}
	}
	return nil
}

// hide covers an existing path with an empty folder or the null device.
func (b *builder) hide(p ownpath.Path) error {
	target, err := b.at(p.String())
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return err
	}
	var tree int
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := unix.Mkdirat(b.store, "nothing", 0o555); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		tree, _, err = openTree(b.store, "nothing", mounts.ReadOnly)
	} else {
		tree, _, err = openTree(b.top, "dev/null", mounts.Device)
	}
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return mounts.Attach(tree, target)
}

// grants mounts the policy's grants.
func (b *builder) grants() error {
	for i, s := range b.binds {
		bind := b.plan.Binds[i]
		if !bind.Within {
			if err := b.attach(s); err != nil {
				return err
			}
			continue
		}
		// It exists already in the outer grant, and must be the same file as outside. Otherwise a concurrent writer could
		// have another path covered.
		st, err := b.cover(s)
		if err == nil && (st.Dev != bind.Dev || st.Ino != bind.Ino) {
			err = errChanged
		}
		if err != nil {
			return &layerError{layer: blueprint.LayerMount, cause: frame.CauseFolder, err: fmt.Errorf("%s: %w", s.path, err)}
		}
	}
	for _, p := range b.ways {
		fd, err := b.at(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("read-only %s: %w", p, err)
		}
	}
	return nil
}

// covered covers foreign sockets in the granted trees. A missing one needs no cover; nor does one whose folder has
// become a link, because it is elsewhere.
func (b *builder) covered() error {
	for _, p := range b.plan.Covered {
		err := b.coverSocket(string(p))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return &layerError{
				layer: blueprint.LayerMount,
				cause: frame.CauseFolder,
				err:   fmt.Errorf("covering the socket %s: %w", p, err),
			}
		}
	}
	return nil
}

func (b *builder) coverSocket(p string) error {
	target, err := b.at(p)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return err
	}
	const name = "no-socket" // an empty file, which needs no permitted device node
	fd, err := unix.Openat(b.store, name, unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	unix.Close(fd)
	tree, _, err := openTree(b.store, name, mounts.ReadOnly)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return mounts.Attach(tree, target)
}

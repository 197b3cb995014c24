package paths

import (
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// Replace puts a file with this content at p, atomically: whoever opens p sees the old file or the whole new one. Missing
// parent folders are made. A file that was there passes on its mode bits and, where the system allows it, its owner. The
// data is handed to the system but not forced to the disk: it survives the death of any process, not that of the machine.
func (p Path) Replace(data []byte) error {
	return p.place(data, func(parent int, tmp, name string) error {
		return unix.Renameat(parent, tmp, parent, name)
	})
}

// Create is [Path.Replace] for a file that must not be there yet; else it fails with file_exists and changes nothing.
func (p Path) Create(data []byte) error {
	err := p.place(data, func(parent int, tmp, name string) error {
		err := unix.Linkat(parent, tmp, parent, name, 0)
		if err == unix.EPERM || err == unix.ENOTSUP || err == unix.ENOSYS {
			// No hard links here; renaming is the next best where nothing is at the name.
			if unix.Faccessat(parent, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
				return unix.EEXIST
			}
			return unix.Renameat(parent, tmp, parent, name)
		}
		return err
	})
	if errors.Is(err, unix.EEXIST) || errors.Is(err, fs.ErrExist) {
		return p.Taken()
	}
	return err
}

// Taken is the refusal to create what is already there.
func (p Path) Taken() error {
	return fault.New(fault.FileExists, "There is already something at %s; use file.write to overwrite a file.", p.Show).With("path", p.Show)
}

// place writes data to a temporary file beside p and lets commit put it at its name.
func (p Path) place(data []byte, commit func(parent int, tmp, name string) error) error {
	if p.Rel == "." {
		return p.notRegular()
	}
	parent, err := p.parent()
	if err == unix.ENOTDIR {
		return fault.Wrap(err, fault.FileNotRegular, "A part of the path %s is not a folder.", p.Show).With("path", p.Show)
	}
	if err != nil {
		return p.Failure("written", err)
	}
	defer unix.Close(parent)
	name := path.Base(p.Rel)
	tmp := ".kaged-" + ident.New() + ".tmp"
	if err := writeTemp(parent, tmp, name, data); err != nil {
		unix.Unlinkat(parent, tmp, 0)
		return p.Failure("written", err)
	}
	err = commit(parent, tmp, name)
	// After a rename there is nothing left to remove.
	unix.Unlinkat(parent, tmp, 0)
	if err == unix.EEXIST {
		return err
	}
	if err != nil {
		return p.Failure("written", err)
	}
	return nil
}

// parent opens the folder p is in and makes what is missing on the way.
func (p Path) parent() (int, error) {
	dir := path.Dir(p.Rel)
	fd, err := openBeneath(p.root.fd, dir, oPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	at, err := unix.FcntlInt(uintptr(p.root.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, part := range components(dir) {
		if err := unix.Mkdirat(at, part, 0o777); err != nil && err != unix.EEXIST {
			unix.Close(at)
			return -1, err
		}
		next, err := openBeneath(at, part, oPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// writeTemp makes the file tmp with data and with the mode and owner of the file called name, if there is one.
func writeTemp(parent int, tmp, name string, data []byte) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(parent, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return unix.Write(fd, data) })
		if err != nil {
			return err
		}
		data = data[n:]
	}
	var old, own unix.Stat_t
	if err := unix.Fstatat(parent, name, &old, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
		return nil
	} else if err != nil {
		return err
	}
	if old.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EISDIR
	}
	if err := unix.Fstat(fd, &own); err != nil {
		return err
	}
	if own.Uid != old.Uid || own.Gid != old.Gid {
		// Only root may give a file away; without that it stays the writer's.
		_ = unix.Fchown(fd, int(old.Uid), int(old.Gid))
	}
	// After the owner, because changing it clears the set-id bits.
	return unix.Fchmod(fd, uint32(old.Mode&0o7777))
}

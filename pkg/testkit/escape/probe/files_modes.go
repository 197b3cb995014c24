//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setid are modes that would give another user the rights of a file's owner.
var setid = []uint32{0o4755, 0o2755, 0o6755, 0o4000, 0o6777, 0o7711}

// bits returns an error unless a file has set-id bits.
func bits(path string) error {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return err
	}
	if s.Mode&0o6000 == 0 {
		return errors.New("the bits are not set")
	}
	return nil
}

func fsSetid() *report {
	r := attack()
	path := link("setid")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fatal(err)
	}
	for _, mode := range setid {
		for name, change := range map[string]func() error{
			"chmod":     func() error { return call(sysChmod, path, int(mode)) },
			"fchmod":    func() error { return call(unix.SYS_FCHMOD, fd, int(mode)) },
			"fchmodat":  func() error { return call(unix.SYS_FCHMODAT, unix.AT_FDCWD, path, int(mode)) },
			"fchmodat2": func() error { return call(unix.SYS_FCHMODAT2, unix.AT_FDCWD, path, int(mode), 0) },
			"high bits": func() error { return call(unix.SYS_FCHMODAT, unix.AT_FDCWD, path, int(mode)|1<<40) },
		} {
			err := change()
			if err == nil {
				err = bits(path)
			}
			r.try(fmt.Sprintf("%s %o", name, mode), err)
			_ = unix.Chmod(path, 0o755)
		}
	}
	_ = os.Remove(path)
	return r
}

func fsSetidCreate() *report {
	r := attack()
	for _, mode := range setid {
		for name, create := range map[string]func(path string) error{
			"open": func(path string) error { return call(sysOpen, path, unix.O_CREAT|unix.O_WRONLY, int(mode)) },
			"openat": func(path string) error {
				return call(unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_CREAT|unix.O_WRONLY, int(mode))
			},
			"openat2": func(path string) error {
				how := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode)}
				return call(unix.SYS_OPENAT2, unix.AT_FDCWD, path, unsafe.Pointer(&how), int(unsafe.Sizeof(how)))
			},
			"creat":   func(path string) error { return call(sysCreat, path, int(mode)) },
			"mknod":   func(path string) error { return call(sysMknod, path, unix.S_IFREG|int(mode), 0) },
			"mknodat": func(path string) error { return call(unix.SYS_MKNODAT, unix.AT_FDCWD, path, unix.S_IFREG|int(mode), 0) },
			"tmpfile": func(path string) error {
				fd, err := result(unix.SYS_OPENAT, unix.AT_FDCWD, params.Work, unix.O_TMPFILE|unix.O_RDWR, int(mode))
				if err != nil {
					return err
				}
				return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
			},
		} {
			path := link("setid-" + name)
			_ = os.Remove(path)
			err := create(path)
			if err == nil {
				err = bits(path)
			}
			r.try(fmt.Sprintf("%s %o", name, mode), err)
			_ = os.Remove(path)
		}
	}
	return r
}

func fsSetidMkdir() *report {
	r := attack()
	// A set-group-id folder passes its group to new entries.
	path := link("setid-folder")
	for name, create := range map[string]func() error{
		"mkdir":   func() error { return call(sysMkdir, path, 0o2777) },
		"mkdirat": func() error { return call(unix.SYS_MKDIRAT, unix.AT_FDCWD, path, 0o2777) },
	} {
		_ = os.Remove(path)
		err := create()
		if err == nil {
			err = bits(path)
		}
		r.try(name, err)
	}
	_ = os.Mkdir(path, 0o755)
	err := unix.Chmod(path, 0o2777)
	if err == nil {
		err = bits(path)
	}
	r.try("chmod", err)
	_ = os.Remove(path)
	return r
}

func fsFileCaps() *report {
	r := attack()
	path := link("caps")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		fatal(err)
	}
	// Revision 2: effective, all permitted.
	all := []byte{1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 1, 0, 0, 0, 0, 0, 0}
	r.try("capabilities on a file", unix.Setxattr(path, "security.capability", all, 0))
	r.try("a trusted attribute", unix.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0))
	_ = os.Remove(path)
	return r
}

func fsChown() *report {
	r := attack()
	path := link("chown")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		fatal(err)
	}
	for _, id := range []int{0, 1, 65534, 12345} {
		if id == os.Getuid() {
			continue
		}
		r.try(fmt.Sprint("giving a file to ", id), unix.Lchown(path, id, id))
	}
	_ = os.Remove(path)
	return r
}

package changes

import (
	"io/fs"
	"os"

	"github.com/go-git/go-billy/v5"
	"golang.org/x/sys/unix"
)

// regular is a file system that opens regular files only. An agent may have put a pipe in the place of a repository's
// file, and who opens a pipe waits for another process.
type regular struct{ billy.Filesystem }

// Open implements [billy.Basic].
func (r regular) Open(name string) (billy.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile implements [billy.Basic].
func (r regular) OpenFile(name string, flag int, mode fs.FileMode) (billy.File, error) {
	if info, err := r.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return r.Filesystem.OpenFile(name, flag|unix.O_NONBLOCK, mode)
}

// Chroot implements [billy.Chroot].
func (r regular) Chroot(path string) (billy.Filesystem, error) {
	below, err := r.Filesystem.Chroot(path)
	return regular{below}, err
}

//go:build !linux

package cage

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// list reads the names in an open folder; the descriptor stays open.
func (c *compiler) list(fd int) ([]dirent, error) {
	own, err := unix.Dup(fd)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "folder")
	defer f.Close()
	entries, err := f.ReadDir(-1)
	found := make([]dirent, 0, len(entries))
	for _, e := range entries {
		kind := uint32(0)
		switch e.Type() {
		case fs.ModeDir:
			kind = unix.S_IFDIR
		case fs.ModeSocket:
			kind = unix.S_IFSOCK
		case fs.ModeSymlink:
			kind = unix.S_IFLNK
		case 0:
			kind = unix.S_IFREG
		}
		found = append(found, dirent{e.Name(), kind})
	}
	return found, err
}

//go:build !linux

package walk

import (
	"os"

	"golang.org/x/sys/unix"
)

// listing reads a folder.
type listing struct {
	fd  int
	buf []byte
}

// next appends the entries to list. done says that these were the last.
func (l *listing) next(list []entry) (_ []entry, done bool, err error) {
	fd, err := unix.Dup(l.fd)
	if err != nil {
		return list, true, err
	}
	dir := os.NewFile(uintptr(fd), "")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		list = append(list, entry{name, statKind(l.fd, name)})
	}
	return list, true, err
}

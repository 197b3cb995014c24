package walk

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// Where the fields of a directory entry are, as getdents64 writes it.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// longestEntry is more than any entry needs.
const longestEntry = 512

// listing reads a folder in large pieces. The names of one piece share one allocation.
type listing struct {
	fd  int
	buf []byte
}

// next appends the next entries to list; there may be no more. done says that these were the last.
func (l *listing) next(list []entry) (_ []entry, done bool, err error) {
	filled := 0
	for len(l.buf)-filled >= longestEntry {
		n, err := unix.Getdents(l.fd, l.buf[filled:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return list, true, err
		case n == 0:
			return l.parse(list, filled), true, nil
		}
		filled += n
	}
	return l.parse(list, filled), false, nil
}

func (l *listing) parse(list []entry, filled int) []entry {
	for text := string(l.buf[:filled]); len(text) > direntName; {
		size := int(binary.NativeEndian.Uint16([]byte(text[direntReclen:direntType])))
		if size <= direntName || size > len(text) {
			break
		}
		name, _, _ := strings.Cut(text[direntName:size], "\x00")
		if name != "." && name != ".." {
			list = append(list, entry{name, l.kindOf(name, text[direntType])})
		}
		text = text[size:]
	}
	return list
}

// kindOf reads an entry's type; file systems that do not tell it are asked.
func (l *listing) kindOf(name string, kind byte) kind {
	switch kind {
	case unix.DT_DIR:
		return folderKind
	case unix.DT_REG:
		return fileKind
	case unix.DT_UNKNOWN:
		return statKind(l.fd, name)
	}
	return otherKind
}

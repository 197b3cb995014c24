package cage

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// list reads the names in an open folder and leaves the descriptor open. It calls getdents64 in a loop, because os.File
// needs four more system calls for each folder and a cage reads hundreds of folders.
func (c *compiler) list(fd int) ([]dirent, error) {
	if c.buffer == nil {
		c.buffer = make([]byte, 32<<10)
	}
	var found []dirent
	for {
		n, err := unix.Getdents(fd, c.buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return found, err
		}
		for rest := c.buffer[:n]; len(rest) >= direntName; {
			size := int(binary.NativeEndian.Uint16(rest[direntSize:]))
			if size < direntName || size > len(rest) {
				break
			}
			name, _, _ := bytes.Cut(rest[direntName:size], []byte{0})
			if text := string(name); text != "." && text != ".." {
				found = append(found, dirent{name: text, kind: uint32(rest[direntKind]) << 12})
			}
			rest = rest[size:]
		}
	}
}

// Offsets in a struct linux_dirent64: the size of the entry, its type, which is that of stat(2) without the
// permissions, and the name.
const (
	direntSize = 16
	direntKind = 18
	direntName = 19
)

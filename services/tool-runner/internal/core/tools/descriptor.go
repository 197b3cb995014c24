package tools

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/workspace/walk"
)

// readEach opens files of one folder, one after the other, until ctx ends. It skips a file that cannot be opened.
func readEach(ctx context.Context, folder *walk.Folder, names []string, read func(name string, r io.Reader)) {
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		fd, err := folder.Open(name)
		if err != nil {
			continue
		}
		read(name, descriptor(fd))
		unix.Close(fd)
	}
}

// page is the read size of file systems in bytes. A read that ends inside a page has reached the end of the file.
const page = 4 << 10

// descriptor reads an open regular file without the cost of an os.File, and without a further read at the end. That
// read would be one of four system calls for a small file, and a search spends most of its time in system calls.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n < len(p) && n%page != 0 || n == 0:
			return n, io.EOF
		}
		return n, nil
	}
}

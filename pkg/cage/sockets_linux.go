package cage

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
)

// maxSocketTable is the maximum number of bytes read from the kernel's table of sockets.
const maxSocketTable = 4 << 20

// listeners are the absolute paths of the sockets of this network namespace.
func listeners() (paths []string) {
	file, err := os.Open("/proc/self/net/unix")
	if err != nil {
		return nil
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, maxSocketTable))
	for line := range strings.Lines(string(text)) {
		// columns: Num RefCount Protocol Flags Type St Inode Path
		if i := strings.Index(line, " /"); i >= 0 {
			paths = append(paths, strings.TrimSuffix(line[i+1:], "\n"))
		}
	}
	return paths
}

// answers reports whether a process holds the socket at a path. It connects with a socket type that services do not
// listen with, so that the service does not notice: the kernel refuses with EPROTOTYPE for a live stream socket and
// with ECONNREFUSED for one of an ended process. To a datagram socket it connects without sending a byte.
func (c *compiler) answers(path string) bool {
	if c.reached(path) != unix.S_IFSOCK {
		return false
	}
	fd, err := unix.Open(path, beneath.Path|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(s)
	err = unix.Connect(s, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(fd)})
	return err != unix.ECONNREFUSED && err != unix.ENOENT
}

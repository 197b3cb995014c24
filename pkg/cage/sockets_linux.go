package cage

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/beneath"
)

// maxSocketTable is how many bytes of the kernel's table of sockets are read.
const maxSocketTable = 4 << 20

// listeners are the paths of the sockets of this network namespace, as far as they are absolute.
func listeners() (paths []string) {
	file, err := os.Open("/proc/self/net/unix")
	if err != nil {
		return nil
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, maxSocketTable))
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path
		if i := strings.Index(line, " /"); i >= 0 {
			paths = append(paths, strings.TrimSuffix(line[i+1:], "\n"))
		}
	}
	return paths
}

// answers reports whether a process holds the socket at a path. It connects with another socket
// type than services listen with, invisible to the service: the kernel refuses it with EPROTOTYPE
// for a live stream and with ECONNREFUSED for one of an ended process. A datagram socket is
// connected to, which sends no bytes.
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

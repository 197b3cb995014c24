package commands

import (
	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// connectTimeout is how many seconds a connection to the loopback may take: one that waits there waits for a
// listener that takes no more.
const connectTimeout = 5

// connect connects to a port of this process's own loopback and hands the socket over.
func (s *Server) connect(f frame.Frame) {
	fd, err := dial(f.Port)
	if err != nil {
		_ = s.conn.Send(frame.Frame{Op: frame.OpFailed, Exec: f.Exec, Text: err.Error()}) // see start
		return
	}
	defer unix.Close(fd)
	_ = s.conn.Send(frame.Frame{Op: frame.OpConnected, Exec: f.Exec}, fd)
}

// dial returns a socket that is connected to a port of the loopback. The kernel's calls are enough, and package
// net would make the program of the cages' inits larger.
func dial(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectTimeout})
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

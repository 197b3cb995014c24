package commands

import (
	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// connectTimeout is the time limit in seconds for a connection to the loopback; it is reached if the listener accepts
// no more connections.
const connectTimeout = 5

// connect connects to a port of this process's loopback and sends the socket to the peer.
func (s *Server) connect(f frame.Frame) {
	fd, err := dial(f.Port)
	if err != nil {
		_ = s.conn.Send(frame.Frame{Op: frame.OpFailed, Exec: f.Exec, Text: err.Error()}) // see start
		return
	}
	defer unix.Close(fd)
	_ = s.conn.Send(frame.Frame{Op: frame.OpConnected, Exec: f.Exec}, fd)
}

// dial returns a socket connected to a port of the loopback. It uses system calls, because package net would make the
// program of cage inits larger.
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

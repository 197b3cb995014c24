package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/core"
	"kaged.dev/services/sandbox-supervisor/internal/frame"
)

// connected is the answer to OpConnect.
type connected struct {
	fd  int
	err error
}

// answer processes a frame that answers a connect request, and reports whether it was one.
func (l *Link) answer(f frame.Frame, fds []int) bool {
	if f.Op != frame.OpConnected && f.Op != frame.OpFailed {
		return false
	}
	l.mu.Lock()
	answer, ok := l.connects[f.Exec]
	delete(l.connects, f.Exec)
	l.mu.Unlock()
	switch {
	case !ok:
		return false
	case f.Op == frame.OpConnected && len(fds) == 1:
		answer <- connected{fd: fds[0]}
		return true
	}
	closeAll(fds)
	answer <- connected{err: errors.New(f.Text)}
	return true
}

// Connect connects to a port of the peer's loopback; id must differ from the id of every command. It fails as
// core.Spawner does, and with ErrOver. ctx limits the wait.
func (l *Link) Connect(ctx context.Context, id uint64, port int) (io.ReadWriteCloser, error) {
	answer := make(chan connected, 1)
	l.mu.Lock()
	over := l.over
	if !over {
		l.connects[id] = answer
	}
	l.mu.Unlock()
	if over {
		return nil, ErrOver
	}
	l.send(frame.Frame{Op: frame.OpConnect, Exec: id, Port: port})
	select {
	case c := <-answer:
		return socket(c, port)
	case <-ctx.Done():
		l.mu.Lock()
		_, waiting := l.connects[id]
		delete(l.connects, id)
		l.mu.Unlock()
		if !waiting { // the answer is about to arrive
			if c := <-answer; c.err == nil {
				unix.Close(c.fd)
			}
		}
		return nil, ctx.Err()
	}
}

// socket returns the connection of an answer.
func socket(c connected, port int) (io.ReadWriteCloser, error) {
	switch {
	case errors.Is(c.err, ErrOver):
		return nil, c.err
	case c.err != nil:
		return nil, core.BadPort(port, c.err.Error())
	}
	file := os.NewFile(uintptr(c.fd), "connection")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, core.BadPort(port, Reason(err))
	}
	return conn, nil
}

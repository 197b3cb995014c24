package frame

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/handover/rights"
)

// packet is the maximum size of one packet: well below any socket buffer, so that a packet is never refused for its
// size.
const packet = 32 << 10

// The first byte of a packet shows whether more of its frame follows.
const (
	last = 0
	more = 1
)

// Conn is one end of the connection. Send may be called from any goroutine, Receive by one at a time; Close ends both.
type Conn struct {
	file *os.File
	raw  syscall.RawConn
	// Patience is the maximum time that Send waits for the other end to read, 0 for no limit. Set it before the first
	// Send. After a failed Send the connection may hold half a frame and must not be used.
	Patience time.Duration
	send     sync.Mutex // held for a whole frame, so that packets of two frames do not mix
	buf, oob []byte     // of the packet that Receive reads
}

// Pair returns a connection and its other end, to be passed to a new process and then closed.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "shim")
	ours, err := Open(fds[0])
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// Open makes a connection from a socket. It takes ownership of fd, also on failure.
func Open(fd int) (*Conn, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "frames")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Conn{file: file, raw: raw, buf: make([]byte, 1+packet), oob: make([]byte, unix.CmsgSpace(4*MaxFiles))}, nil
}

// Close ends the connection; the other end receives io.EOF.
func (c *Conn) Close() error { return c.file.Close() }

// End sends OpEnd, which announces an orderly end, and closes the connection. It never waits: if the peer does not
// read, or while a Send waits, the peer only sees the connection's end.
func (c *Conn) End() error {
	if c.send.TryLock() {
		data := Frame{Op: OpEnd}.append([]byte{last})
		_ = c.raw.Control(func(fd uintptr) {
			_ = unix.Sendmsg(int(fd), data, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		})
		c.send.Unlock()
	}
	return c.Close()
}

// Send sends a frame with descriptors, which the caller closes. It blocks while the other end does not read, at most
// for Patience.
func (c *Conn) Send(f Frame, fds ...int) error {
	data := f.append(nil)
	if len(data) > Max || len(fds) > MaxFiles {
		return fmt.Errorf("frame %s is too large: %d bytes, %d files", f.Op, len(data), len(fds))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	c.send.Lock()
	defer c.send.Unlock()
	if c.Patience > 0 {
		_ = c.file.SetWriteDeadline(time.Now().Add(c.Patience)) // if this fails there is only no deadline
	}
	out := make([]byte, 1, 1+min(len(data), packet))
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), packet)
		out[0] = last
		if n < len(data) {
			out[0] = more
		}
		out = append(out[:1], data[:n]...)
		data = data[n:]
		if err := c.sendPacket(out, rights); err != nil {
			return fmt.Errorf("frame %s: %w", f.Op, err)
		}
		rights = nil
	}
	return nil
}

func (c *Conn) sendPacket(data, rights []byte) error {
	var sendErr error
	err := c.raw.Write(func(fd uintptr) bool {
		for {
			sendErr = unix.Sendmsg(int(fd), data, rights, nil, unix.MSG_NOSIGNAL)
			if sendErr != unix.EINTR {
				return sendErr != unix.EAGAIN
			}
		}
	})
	return errors.Join(err, sendErr)
}

// Receive returns the next frame and its descriptors, which have close-on-exec and are closed by the caller. It returns
// io.EOF when the other end is closed, also by the death of its process.
func (c *Conn) Receive() (f Frame, fds []int, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	var data []byte
	for {
		n, got, err := c.receivePacket()
		fds = append(fds, got...)
		if err != nil {
			return Frame{}, fds, err
		}
		data = append(data, c.buf[1:n]...)
		if len(data) > Max || len(fds) > MaxFiles {
			return Frame{}, fds, errors.New("a frame is longer than allowed")
		}
		if c.buf[0] == last {
			break
		}
	}
	f, err = parse(data)
	return f, fds, err
}

// receivePacket reads one packet into c.buf and returns its length, at least 1.
func (c *Conn) receivePacket() (n int, fds []int, err error) {
	var oobn, flags int
	var recvErr error
	err = c.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, recvErr = unix.Recvmsg(int(fd), c.buf, c.oob, unix.MSG_CMSG_CLOEXEC)
			if recvErr != unix.EINTR {
				return recvErr != unix.EAGAIN
			}
		}
	})
	if err = errors.Join(err, recvErr); err != nil {
		return 0, nil, err
	}
	if fds, err = rights.Parse(c.oob[:oobn]); err != nil {
		return 0, fds, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return 0, fds, errors.New("a packet is longer than allowed")
	}
	if n == 0 {
		return 0, fds, io.EOF
	}
	return n, fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

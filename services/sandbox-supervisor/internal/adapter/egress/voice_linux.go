package egress

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// voice is what a client says, of which some is read before it is passed on.
type voice struct {
	conn  *net.TCPConn
	heard []byte // read and not passed on yet
}

// some is how much is read at once.
const some = 4096

// more reads more into heard; it fails only if there is nothing more.
func (v *voice) more() error {
	v.heard = slices.Grow(v.heard, some)
	n, err := v.conn.Read(v.heard[len(v.heard):cap(v.heard)])
	v.heard = v.heard[:len(v.heard)+n]
	if n > 0 {
		return nil
	}
	return err
}

// need reads until n bytes are in heard.
func (v *voice) need(n int) error {
	for len(v.heard) < n {
		if err := v.more(); err != nil {
			return err
		}
	}
	return nil
}

// pass passes the next n bytes on, those that are not read yet in the kernel. It fails with io.EOF if there are fewer.
func (v *voice) pass(to *net.TCPConn, n int64) error {
	now := min(n, int64(len(v.heard)))
	if now > 0 {
		if _, err := to.Write(v.heard[:now]); err != nil {
			return err
		}
		v.heard = v.heard[:copy(v.heard, v.heard[now:])]
	}
	if n == now {
		return nil
	}
	_, err := io.CopyN(to, v.conn, n-now)
	return err
}

// request passes an HTTP request on.
func (v *voice) request(to *net.TCPConn, s speech) error {
	if err := v.pass(to, int64(s.head)); err != nil {
		return err
	}
	if s.body == inChunks {
		return v.chunks(to)
	}
	return v.pass(to, s.body)
}

// errChunks says that it is not clear where a body ends.
var errChunks = errors.New("the chunks of a request are malformed")

// maxLine is the longest line of a chunk's size and of a trailer.
const maxLine = 8 << 10

// line passes the next line on and returns it without its end.
func (v *voice) line(to *net.TCPConn) (string, error) {
	end := bytes.IndexByte(v.heard, '\n')
	for ; end < 0; end = bytes.IndexByte(v.heard, '\n') {
		if len(v.heard) > maxLine {
			return "", errChunks
		}
		if err := v.more(); err != nil {
			return "", err
		}
	}
	line := strings.TrimSuffix(string(v.heard[:end]), "\r")
	return line, v.pass(to, int64(end)+1)
}

// chunks passes a body in chunks on, with its trailers.
func (v *voice) chunks(to *net.TCPConn) error {
	for {
		line, err := v.line(to)
		if err != nil {
			return err
		}
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseUint(strings.TrimRight(digits, " \t"), 16, 62)
		if err != nil || strings.Contains(line, "\r") {
			return errChunks
		}
		if size == 0 {
			break
		}
		if err := v.pass(to, int64(size)); err != nil {
			return err
		}
		if line, err = v.line(to); err != nil {
			return err
		}
		if line != "" {
			return errChunks
		}
	}
	for total := 0; total <= maxHello; {
		line, err := v.line(to)
		if err != nil || line == "" {
			return err
		}
		total += len(line)
	}
	return errChunks
}

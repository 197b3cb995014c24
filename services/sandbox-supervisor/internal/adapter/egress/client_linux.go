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

// clientStream reads a client's bytes ahead of their relay.
type clientStream struct {
	conn     *net.TCPConn
	buffered []byte // read and not yet relayed
}

// some is the size of one read.
const some = 4096

// more reads into buffered. It fails only if it reads no byte.
func (c *clientStream) more() error {
	c.buffered = slices.Grow(c.buffered, some)
	n, err := c.conn.Read(c.buffered[len(c.buffered):cap(c.buffered)])
	c.buffered = c.buffered[:len(c.buffered)+n]
	if n > 0 {
		return nil
	}
	return err
}

// need reads until n bytes are buffered.
func (c *clientStream) need(n int) error {
	for len(c.buffered) < n {
		if err := c.more(); err != nil {
			return err
		}
	}
	return nil
}

// pass relays the next n bytes, unread ones with splice(2). It fails with io.EOF if there are fewer.
func (c *clientStream) pass(to *net.TCPConn, n int64) error {
	now := min(n, int64(len(c.buffered)))
	if now > 0 {
		if _, err := to.Write(c.buffered[:now]); err != nil {
			return err
		}
		c.buffered = c.buffered[:copy(c.buffered, c.buffered[now:])]
	}
	if n == now {
		return nil
	}
	_, err := io.CopyN(to, c.conn, n-now)
	return err
}

// request relays an HTTP request.
func (c *clientStream) request(to *net.TCPConn, s preface) error {
	if err := c.pass(to, int64(s.head)); err != nil {
		return err
	}
	if s.body == inChunks {
		return c.chunks(to)
	}
	return c.pass(to, s.body)
}

// errChunks reports that the end of a body is ambiguous.
var errChunks = errors.New("the chunks of a request are malformed")

// maxLine limits a line with a chunk's size, and a trailer.
const maxLine = 8 << 10

// line reads the next line, which stays buffered, and returns it without its end, and its size with it.
func (c *clientStream) line() (line string, size int64, err error) {
	end := bytes.IndexByte(c.buffered, '\n')
	for ; end < 0; end = bytes.IndexByte(c.buffered, '\n') {
		if len(c.buffered) > maxLine {
			return "", 0, errChunks
		}
		if err := c.more(); err != nil {
			return "", 0, err
		}
	}
	return strings.TrimSuffix(string(c.buffered[:end]), "\r"), int64(end) + 1, nil
}

// chunks relays a chunked body with its trailers. A line is checked before it is relayed: the server must not see a
// body that it may read in another way.
func (c *clientStream) chunks(to *net.TCPConn) error {
	for {
		line, length, err := c.line()
		if err != nil {
			return err
		}
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseUint(strings.TrimRight(digits, " \t"), 16, 62)
		if err != nil || strings.Contains(line, "\r") {
			return errChunks
		}
		if err := c.pass(to, length+int64(size)); err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if line, length, err = c.line(); err != nil {
			return err
		}
		if line != "" {
			return errChunks
		}
		if err := c.pass(to, length); err != nil {
			return err
		}
	}
	for total := 0; total <= maxHello; {
		line, length, err := c.line()
		if err != nil {
			return err
		}
		if err := c.pass(to, length); err != nil || line == "" {
			return err
		}
		total += len(line)
	}
	return errChunks
}

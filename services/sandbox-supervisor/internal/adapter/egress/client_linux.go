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

// line relays the next line and returns it without its end.
func (c *clientStream) line(to *net.TCPConn) (string, error) {
	end := bytes.IndexByte(c.buffered, '\n')
	for ; end < 0; end = bytes.IndexByte(c.buffered, '\n') {
		if len(c.buffered) > maxLine {
			return "", errChunks
		}
		if err := c.more(); err != nil {
			return "", err
		}
	}
	line := strings.TrimSuffix(string(c.buffered[:end]), "\r")
	return line, c.pass(to, int64(end)+1)
}

// chunks relays a chunked body with its trailers.
func (c *clientStream) chunks(to *net.TCPConn) error {
	for {
		line, err := c.line(to)
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
		if err := c.pass(to, int64(size)); err != nil {
			return err
		}
		if line, err = c.line(to); err != nil {
			return err
		}
		if line != "" {
			return errChunks
		}
	}
	for total := 0; total <= maxHello; {
		line, err := c.line(to)
		if err != nil || line == "" {
			return err
		}
		total += len(line)
	}
	return errChunks
}

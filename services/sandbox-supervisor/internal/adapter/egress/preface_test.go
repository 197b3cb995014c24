package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// hearing is a connection without a peer that records a client's hello.
type hearing struct {
	net.Conn
	said bytes.Buffer
}

func (h *hearing) Write(p []byte) (int, error) { return h.said.Write(p) }
func (h *hearing) Read([]byte) (int, error)    { return 0, io.EOF }

// hello is the first message of a real client to a server with the given name.
func hello(name string) []byte {
	var h hearing
	_ = tls.Client(&h, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}).
		Handshake()
	return h.said.Bytes()
}

// cut cuts a hello of one record into records of n bytes.
func cut(said []byte, n int) (records []byte) {
	for part := range slices.Chunk(said[recordHeader:], n) {
		records = append(records, said[0], said[1], said[2], byte(len(part)>>8), byte(len(part)))
		records = append(records, part...)
	}
	return records
}

// twice repeats a hello inside its record.
func twice(said []byte) []byte {
	both := append(append([]byte{}, said...), said[recordHeader:]...)
	n := len(both) - recordHeader
	both[3], both[4] = byte(n>>8), byte(n)
	return both
}

// sniffCases are the first bytes of connections, with the protocol and the names in them.
var sniffCases = []struct {
	name     string
	said     []byte
	protocol string
	names    string
	err      error
}{
	{"a hello", hello("example.com"), "TLS", "example.com", nil},
	{"a hello in capitals", hello("EXAMPLE.com"), "TLS", "example.com", nil},
	{"a hello to nobody", hello(""), "TLS", "", nil},
	{"a hello in records of a byte", cut(hello("example.com"), 1), "TLS", "example.com", nil},
	{"a hello in records of seven", cut(hello("example.com"), 7), "TLS", "example.com", nil},
	{"an empty record", []byte("\x16\x03\x01\x00\x00"), "", "", errTLS},
	{"a record too long", []byte("\x16\x03\x01\x7f\xff"), "", "", errTLS},
	{"another message", []byte("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), "", "", errTLS},
	{"a hello too long", []byte("\x16\x03\x01\x00\x04\x01\xff\xff\xff"), "", "", errTooLong},
	{"a hello of nothing", []byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"), "", "", errTLS},
	{"an alert in the midst", append(cut(hello("example.com"), 40)[:45], 0x15, 3, 1, 0, 2, 1, 0), "", "", errTLS},
	{"another version of TLS", append([]byte("\x16\x04"), hello("example.com")[2:]...), "", "", errTLS},
	{"an old version of TLS", append([]byte("\x16\x01"), hello("example.com")[2:]...), "", "", errTLS},
	{"no version of TLS", append([]byte("\x16\x00"), hello("example.com")[2:]...), "", "", errTLS},
	{"a warning before a hello", append([]byte("\x15\x03\x01\x00\x02\x01\x5a"), hello("example.com")...), "", "", errTLS},
	{
		"a ChangeCipherSpec before a hello", append([]byte("\x14\x03\x01\x00\x01\x01"), hello("example.com")...), "", "",
		errTLS,
	},
	{"data before a hello", append([]byte("\x17\x03\x03\x00\x01\x00"), hello("example.com")...), "", "", errTLS},
	{
		"a heartbeat before a hello", append([]byte("\x18\x03\x03\x00\x03\x01\x00\x00"), hello("example.com")...), "", "",
		errTLS,
	},
	{"a hello of SSL 2", []byte("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10"), "", "", errTLS},
	{"a long hello of SSL 2", []byte("\x81\x2e\x01\x00\x02"), "", "", errTLS},
	{
		"a hello that looks like MongoDB", []byte("\x16\x01\x00\x00\xff\x01\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00"), "", "",
		errTLS,
	},
	{"a request", []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), "HTTP", "example.com", nil},
	{"a request with bare line ends", []byte("GET / HTTP/1.1\nhost:EXAMPLE.com.:80\n\n"), "HTTP", "example.com", nil},
	{"a Kelvin sign", []byte("GET / HTTP/1.1\r\nHost: \u212a.example\r\n\r\n"), "HTTP", "\u212a.example", nil},
	{"an unknown method", []byte("BREW /pot HTTP/1.0\r\nHost: a\r\n\r\n"), "HTTP", "a", nil},
	{
		"a proxy's request", []byte("GET http://u@evil.example:80/x HTTP/1.1\r\nHost: example.com\r\n\r\n"), "HTTP",
		"evil.example example.com", nil,
	},
	{"a tunnel", []byte("CONNECT evil.example:443 HTTP/1.1\r\n\r\n"), "HTTP", "evil.example", nil},
	{"IPv6", []byte("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), "HTTP", "[::1]", nil},
	{"a body", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n"), "HTTP", "a", nil},
	{
		"two lengths", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nContent-Length: 12\r\n\r\n"), "", "",
		errHTTP,
	},
	{"a length that is none", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"), "", "", errHTTP},
	{
		"a length and chunks",
		[]byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n"), "", "", errHTTP,
	},
	{"another encoding", []byte("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), "", "", errHTTP},
	{
		"chunks before their time", []byte("PUT / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "", "",
		errHTTP,
	},
	{"a version between", []byte("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a space before the colon", []byte("GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 9\r\n\r\n"), "", "", errHTTP},
	{"a bare CR", []byte("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"), "", "", errHTTP},
	{"two hellos in a record", twice(hello("example.com")), "", "", errTLS},
	{"a folded host", []byte("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"), "", "", errHTTP},
	{"a line that is no header", []byte("GET / HTTP/1.1\r\nHost\r\n\r\n"), "", "", errHTTP},
	{"a NUL in a header", []byte("GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n"), "", "", errHTTP},
	{"a long method", []byte(strings.Repeat("A", 33) + " / HTTP/1.1\r\nHost: example.com\r\n\r\n"), "", "", errHTTP},
	{"a blank first", []byte(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a form feed first", []byte("\fGET / HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"another blank", []byte("GET\v/\xa0HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"two blanks", []byte("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a tab", []byte("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a word too many", []byte("GET / HTTP/1.1 x\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a blank in the target", []byte("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a control character in the target", []byte("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"a small version", []byte("GET / http/1.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"version 0.9", []byte("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"version 01.1", []byte("GET / HTTP/01.1\r\nHost: a\r\n\r\n"), "", "", errHTTP},
	{"HTTP/2 without TLS", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "", "", errHTTP2},
	{"PROXY 1", []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\nGET / HTTP/1.1\r\nHost: evil\r\n\r\n"), "", "", errProxy},
	{"PROXY 2", []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), "", "", errProxy},
	{"MongoDB", []byte("\x16\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00"), "", "", nil},
	{"memcached", []byte("\x80\x00\x00\x03\x00\x00\x00\x00"), "", "", nil},
	{"a WebSocket's frame", []byte("\x81\x85\x01\x77"), "", "", nil},
	{"SIP", []byte("OPTIONS sip:a SIP/2.0\r\n"), "", "", nil},
	{"LDAP", []byte("0\x0c\x02\x01\x01\x60\x07"), "", "", nil},
	{"SSH", []byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"), "", "", nil},
	{"SMTP", []byte("EHLO cage\r\n"), "", "", nil},
	{"Postgres", []byte("\x00\x00\x00\x08\x04\xd2\x16\x2f"), "", "", nil},
	{"git", []byte("003egit-upload-pack /a.git\x00host=example.com\x00"), "", "", nil},
	{"Redis", []byte("*1\r\n$4\r\nPING\r\n"), "", "", nil},
}

// A client's first bytes have one meaning however they are split, and none before they are complete.
func TestSniff(t *testing.T) {
	t.Parallel()
	for _, c := range sniffCases {
		t.Run(c.name, func(t *testing.T) {
			for n := range len(c.said) {
				// A prefix gives the same result or errMore, and no other result.
				if s, err := sniff(c.said[:n], false); err == nil &&
					(s.protocol != c.protocol || strings.Join(s.names, " ") != c.names) {
					t.Errorf("the first %d bytes are %+v", n, s)
				}
			}
			s, err := sniff(c.said, false)
			if err != nil {
				s = preface{} // its partial result is dropped
			} else if s.protocol != "" && (s.head != len(c.said) || s.body != 0 && c.name != "a body") {
				t.Errorf("%+v, want a head of %d bytes", s, len(c.said))
			}
			if !errors.Is(err, c.err) || s.protocol != c.protocol || strings.Join(s.names, " ") != c.names {
				t.Errorf("%+v, %v, want %s %s, %v", s, err, c.protocol, c.names, c.err)
			}
		})
	}
}

// An endless preface is refused at its limit, and its beginning waits for more.
func TestSniffIsBounded(t *testing.T) {
	t.Parallel()
	endless := append([]byte("GET / HTTP/1.1\r\n"), bytes.Repeat([]byte("X: y\r\n"), maxHello/6+1)...)
	if _, err := sniff(endless, false); !errors.Is(err, errTooLong) {
		t.Errorf("a header without an end: %v", err)
	}
	if _, err := sniff(cut(hello("example.com"), 1)[:maxHello/1000], false); !errors.Is(err, errMore) {
		t.Errorf("the beginning of a hello: %v", err)
	}
}

// After a server's greeting, bytes that resemble TLS belong to another protocol; a valid hello and a request are still
// parsed.
func TestListenBehindGreeting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, said, protocol string
		err                  error
	}{
		{"MySQL, 278 bytes", "\x16\x01\x00\x01\x85\xa6\xff\x01", "", nil},
		{"MySQL, 128 bytes", "\x80\x00\x00\x01\x85\xa6\xff\x01", "", nil},
		{"MySQL, 277 bytes", "\x15\x01\x00\x01\x85\xa6\xff\x01", "", nil},
		{"TLS", string(hello("example.com")), "TLS", nil},
		{"HTTP", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP", nil},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", errHTTP2},
	} {
		if s, err := sniff([]byte(c.said), true); s.protocol != c.protocol || !errors.Is(err, c.err) {
			t.Errorf("%s: got %q, %v, want %q, %v", c.name, s.protocol, err, c.protocol, c.err)
		}
	}
}

// FuzzListen checks that no bytes stop the gate, that a verdict does not change with later bytes, and that no input
// that a Go server accepts as TLS or HTTP passes without a name.
func FuzzListen(f *testing.F) {
	f.Add(hello("example.com"), 5, false)
	f.Add(cut(hello("example.com"), 3), 100, true)
	f.Add([]byte("GET http://a/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), 40, false)
	f.Add([]byte("\r\n\r\nCONNECT a:1 HTTP/1.1\nHost: b\n\n"), 9, true)
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 3, false)
	f.Add(append([]byte("\x15\x03\x01\x00\x02\x01\x5a"), hello("example.com")...), 7, false)
	f.Add([]byte("\x16\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00"), 4, false)
	f.Fuzz(func(t *testing.T, said []byte, at int, answered bool) {
		s, err := sniff(said, answered)
		if err == nil && s.protocol == "" && !answered {
			if name, ok := served(said); ok {
				t.Fatalf("%q passes unread, and a server takes it for a ClientHello to %q", said, name)
			}
			if req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(said))); err == nil && req.ProtoMajor < 3 {
				t.Fatalf("%q passes unread, and a server takes it for a request to %q", said, req.Host)
			}
		}
		if at < 0 || at > len(said) {
			return
		}
		early, earlyErr := sniff(said[:at], answered)
		if earlyErr == nil && len(said) < maxHello && (err != nil || !reflect.DeepEqual(early, s)) {
			t.Fatalf("%q is %+v, and its first %d bytes are %+v", said, s, at, early)
		}
	})
}

// served returns the name that crypto/tls reads in a client's first bytes; ok is false if it reads no ClientHello.
func served(said []byte) (name string, ok bool) {
	done := errors.New("done")
	_ = tls.Server(&reading{Reader: bytes.NewReader(said)},
		&tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = hello.ServerName, true
			return nil, done
		}}).
		Handshake()
	return name, ok
}

// reading is a connection that returns a client's bytes.
type reading struct {
	net.Conn
	io.Reader
}

func (r *reading) Read(p []byte) (int, error)       { return r.Reader.Read(p) }
func (r *reading) Write(p []byte) (int, error)      { return len(p), nil }
func (r *reading) Close() error                     { return nil }
func (r *reading) SetWriteDeadline(time.Time) error { return nil }

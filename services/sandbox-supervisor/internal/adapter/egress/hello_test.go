package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// hearing is a connection on which a client says its hello to nobody.
type hearing struct {
	net.Conn
	said bytes.Buffer
}

func (h *hearing) Write(p []byte) (int, error) { return h.said.Write(p) }
func (h *hearing) Read([]byte) (int, error)    { return 0, io.EOF }

// hello is what a real client says first to a server of that name.
func hello(name string) []byte {
	var h hearing
	_ = tls.Client(&h, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}).Handshake() // nobody answers
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

// twice puts a hello into its record twice.
func twice(said []byte) []byte {
	both := append(append([]byte{}, said...), said[recordHeader:]...)
	n := len(both) - recordHeader
	both[3], both[4] = byte(n>>8), byte(n)
	return both
}

// However a client's first words are cut up, they mean the same, and never something before they are complete.
func TestListen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
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
		{"no version of TLS", []byte("\x16\x16"), "", "", nil},
		{"a request", []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), "HTTP", "example.com", nil},
		{"a request with bare line ends", []byte("GET / HTTP/1.1\nhost:EXAMPLE.com.:80\n\n"), "HTTP", "example.com", nil},
		{"a Kelvin sign", []byte("GET / HTTP/1.1\r\nHost: \u212a.example\r\n\r\n"), "HTTP", "\u212a.example", nil},
		{"an unknown method", []byte("BREW /pot HTTP/1.0\r\nHost: a\r\n\r\n"), "HTTP", "a", nil},
		{"a proxy's request", []byte("GET http://u@evil.example:80/x HTTP/1.1\r\nHost: example.com\r\n\r\n"), "HTTP", "evil.example example.com", nil},
		{"a tunnel", []byte("CONNECT evil.example:443 HTTP/1.1\r\n\r\n"), "HTTP", "evil.example", nil},
		{"IPv6", []byte("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), "HTTP", "[::1]", nil},
		{"a body", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n"), "HTTP", "a", nil},
		{"two lengths", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nContent-Length: 12\r\n\r\n"), "", "", errHTTP},
		{"a length that is none", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"), "", "", errHTTP},
		{"a length and chunks", []byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n"), "", "", errHTTP},
		{"another encoding", []byte("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), "", "", errHTTP},
		{"chunks before their time", []byte("PUT / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), "", "", errHTTP},
		{"a version between", []byte("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), "", "", errHTTP},
		{"a space before the colon", []byte("GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 9\r\n\r\n"), "", "", errHTTP},
		{"a bare CR", []byte("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"), "", "", errHTTP},
		{"two hellos in a record", twice(hello("example.com")), "", "", errTLS},
		{"a folded host", []byte("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"), "", "", errHTTP},
		{"a line that is no header", []byte("GET / HTTP/1.1\r\nHost\r\n\r\n"), "", "", errHTTP},
		{"a NUL in a header", []byte("GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n"), "", "", errHTTP},
		{"HTTP/2 without TLS", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "", "", nil},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"), "", "", nil},
		{"SMTP", []byte("EHLO cage\r\n"), "", "", nil},
		{"Postgres", []byte("\x00\x00\x00\x08\x04\xd2\x16\x2f"), "", "", nil},
		{"git", []byte("003egit-upload-pack /a.git\x00host=example.com\x00"), "", "", nil},
		{"Redis", []byte("*1\r\n$4\r\nPING\r\n"), "", "", nil},
	} {
		for n := range len(c.said) {
			// A prefix may already be clear, or not clear yet; it is never clear in another way.
			if s, err := listen(c.said[:n]); err == nil && (s.protocol != c.protocol || strings.Join(s.names, " ") != c.names) {
				t.Errorf("%s: the first %d bytes are %+v", c.name, n, s)
			}
		}
		s, err := listen(c.said)
		if err != nil {
			s = speech{} // what it had found so far is nobody's
		} else if s.protocol != "" && (s.head != len(c.said) || s.body != 0 && c.name != "a body") {
			t.Errorf("%s: %+v, want a head of %d bytes", c.name, s, len(c.said))
		}
		if !errors.Is(err, c.err) || s.protocol != c.protocol || strings.Join(s.names, " ") != c.names {
			t.Errorf("%s: %+v, %v, want %s %s, %v", c.name, s, err, c.protocol, c.names, c.err)
		}
	}
	endless := append([]byte("GET / HTTP/1.1\r\n"), bytes.Repeat([]byte("X: y\r\n"), maxHello/6+1)...)
	if _, err := listen(endless); !errors.Is(err, errTooLong) {
		t.Errorf("a header without an end: %v", err)
	}
	if _, err := listen(cut(hello("example.com"), 1)[:maxHello/1000]); !errors.Is(err, errMore) {
		t.Errorf("the beginning of a hello: %v", err)
	}
}

// FuzzListen holds that no bytes stop the gate, and that what is clear stays so with every byte that follows.
func FuzzListen(f *testing.F) {
	f.Add(hello("example.com"), 5)
	f.Add(cut(hello("example.com"), 3), 100)
	f.Add([]byte("GET http://a/ HTTP/1.1\r\nHost: example.com\r\n\r\n"), 40)
	f.Add([]byte("\r\n\r\nCONNECT a:1 HTTP/1.1\nHost: b\n\n"), 9)
	f.Fuzz(func(t *testing.T, said []byte, at int) {
		s, err := listen(said)
		if at < 0 || at > len(said) {
			return
		}
		early, earlyErr := listen(said[:at])
		if earlyErr == nil && len(said) < maxHello && (err != nil || !reflect.DeepEqual(early, s)) {
			t.Fatalf("%q is %+v, and its first %d bytes are %+v", said, s, at, early)
		}
	})
}

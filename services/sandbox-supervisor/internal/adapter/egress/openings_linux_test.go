package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kaged.dev/pkg/testkit/escape"
	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

// front is a server of many sites on one port. It records the names by which it was called.
type front struct {
	addr  net.Addr
	first chan struct{} // closed at the first call

	mu     sync.Mutex // guards the fields below
	called []string
}

func newFront() *front { return &front{first: make(chan struct{})} }

func (f *front) note(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.called = append(f.called, name); len(f.called) == 1 {
		close(f.first)
	}
}

func (f *front) names() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.called, " ")
}

// tlsFront speaks TLS with crypto/tls.
func tlsFront(t *testing.T) *front {
	f := newFront()
	f.addr = speaker(t, func(conn *net.TCPConn) {
		_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			f.note(hello.ServerName)
			return nil, errors.New("it is enough to have been called")
		}}).Handshake()
	})
	return f
}

// httpFront speaks HTTP/1 and HTTP/2 without TLS with net/http.
func httpFront(t *testing.T) *front {
	f := newFront()
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { f.note(req.Host) }),
	)
	server.Config.ErrorLog = quiet()
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	f.addr = server.Listener.Addr()
	return f
}

// h2c is the first message of an HTTP/2 client without TLS that calls a site.
func h2c(t *testing.T, site string) []byte {
	t.Helper()
	var h hearing
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: nil}
	transport.Protocols.SetUnencryptedHTTP2(true)
	heard := make(chan []byte, 1)
	addr := speaker(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "\x00\x00\x00\x04\x00\x00\x00\x00\x00") // the server's default settings
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 4096)
		for !bytes.Contains(h.said.Bytes(), []byte("\x01\x05")) { // HEADERS with END_STREAM and END_HEADERS
			n, err := conn.Read(buf)
			if h.said.Write(buf[:n]); err != nil {
				break
			}
		}
		heard <- h.said.Bytes()
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = site
	if resp, err := transport.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
	transport.CloseIdleConnections()
	return <-heard
}

// An opening that some server understands and the gate does not is refused on a rule by name, reported as refused and
// never as allowed, before a byte of it is sent out.
func TestOddOpenings(t *testing.T) {
	t.Parallel()
	evil := hello("evil.example")
	odd := func(major byte) []byte { return append([]byte{recordHandshake, major}, evil[2:]...) }
	tried := map[string]bool{}
	request := " / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		name  string
		front func(*testing.T) *front
		said  []byte
		taken bool // whether Go's server accepts it
	}{
		{"open-alert", tlsFront, append([]byte("\x15\x03\x01\x00\x02\x01\x5a"), evil...), true},
		{"open-alert-version", tlsFront, append([]byte("\x15\x00\x01\x00\x02\x01\x5a"), evil...), true},
		{"open-version-high", tlsFront, odd(4), true},
		{"open-version-low", tlsFront, odd(1), true},
		{"open-version-zero", tlsFront, odd(0), true},
		{"open-version-highest", tlsFront, odd(15), true},
		{"open-change-cipher", tlsFront, append([]byte("\x14\x03\x01\x00\x01\x01"), evil...), false},
		{"open-heartbeat", tlsFront, append([]byte("\x18\x03\x01\x00\x03\x01\x00\x00"), evil...), false},
		{"open-ssl2", tlsFront, []byte("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10"), false},
		{"open-method", httpFront, []byte(strings.Repeat("A", 33) + request), true},
		{"open-method-long", httpFront, []byte(strings.Repeat("A", 9000) + request), true},
		{"open-h2c", httpFront, h2c(t, "evil.example"), true},
		{"open-blank", httpFront, []byte(" GET" + request), false},
		{"open-proxy", httpFront, []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\nGET" + request), false},
	} {
		tried[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := c.front(t)
			direct, err := net.Dial("tcp", f.addr.String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = direct.Write(c.said)
			_ = direct.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, direct)
			direct.Close()
			if c.taken { // an HTTP/2 server may close the connection before its handler has run
				select {
				case <-f.first:
				case <-time.After(time.Minute):
				}
			}
			if got := f.names() == "evil.example"; got != c.taken {
				t.Errorf("without the gate the server was called by %q, want it taken %t", f.names(), c.taken)
			}
			before := f.names()

			w := newWorld()
			w.at("vm.example", "93.184.216.34:443", f.addr)
			g := guard(t, netnstest.User, w, []string{"vm.example:443"}, nil)
			for _, way := range []string{"at once", "in pieces"} {
				conn, err := g.Dial("tcp", g.gate.table.names["vm.example"].String()+":443")
				if err != nil {
					t.Fatal(err)
				}
				step := len(c.said)
				if way == "in pieces" {
					step = max(1, len(c.said)/100)
				}
				for said := c.said; len(said) > 0 && err == nil; said = said[min(step, len(said)):] {
					_, err = conn.Write(said[:min(step, len(said))])
				}
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				if err == nil { // otherwise it was refused before the last piece
					_, err = io.ReadAll(conn)
				}
				if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					t.Errorf("%s: got %v, want a reset", way, err)
				}
				conn.Close()
			}
			g.expect(t, "vm.example:443", false, "cannot be checked")
			g.stop()
			if g.has("vm.example:443", true, "") {
				t.Error("the opening is told as allowed")
			}
			if after := f.names(); after != before {
				t.Errorf("the server was called by %q through the gate", strings.TrimPrefix(after, before))
			}
		})
	}
	for _, c := range escape.Catalogue {
		if c.In(escape.Named) && !tried[c.ID] {
			t.Errorf("%s of the catalogue is not tried", c.ID)
		}
	}
}

// Protocols other than TLS and HTTP pass on a rule by name, even if their bytes resemble TLS after a server's greeting.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, greeting, said string }{
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-Go\r\n\x00\x00\x01\x14\x0a\x14"},
		{"SMTP", "220 mail ESMTP\r\n", "EHLO cage\r\nMAIL FROM:<a@example.com>\r\n"},
		{"MySQL", "\x4a\x00\x00\x00\x0a8.0.36\x00", "\x16\x01\x00\x01\x85\xa6\xff\x01\x00\x00\x00\x01"},
		{"MySQL with a packet of 128 bytes", "\x4a\x00\x00\x00\x0a8.0.36\x00", "\x80\x00\x00\x01\x85\xa6\xff\x01"},
		{"Postgres", "", "\x00\x00\x00\x08\x04\xd2\x16\x2f"},
		{"Redis", "", "*1\r\n$4\r\nPING\r\n"},
		{"MongoDB", "", "\x15\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00"},
		{"git", "", "003egit-upload-pack /a.git\x00host=example.com\x00"},
		{"memcached", "", "get key\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.at("db.example", "93.184.216.34:5432", speaker(t, func(conn *net.TCPConn) {
				_, _ = io.WriteString(conn, c.greeting)
				_, _ = io.Copy(conn, conn)
			}))
			g := guard(t, netnstest.User, w, []string{"db.example:5432"}, nil)
			conn, err := g.Dial("tcp", g.gate.table.names["db.example"].String()+":5432")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			r := bufio.NewReader(conn)
			for _, words := range []string{c.greeting, c.said} {
				if words == c.said {
					_, _ = io.WriteString(conn, words)
				}
				back := make([]byte, len(words))
				if _, err := io.ReadFull(r, back); err != nil || string(back) != words {
					t.Fatalf("got %q, %v, want %q", back, err, words)
				}
			}
			g.expect(t, "db.example:5432", true, "db.example:5432")
		})
	}
}

package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

// secure is a TLS server that answers with the name by which it was called. Its certificate is for example.com.
func secure(t testing.TB) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = fmt.Fprintf(w, "%s by %s", req.Host, req.TLS.ServerName)
	}))
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server, roots
}

// TLS is between the program and the server, with the server's own certificate. A client that names another server, or
// none, is cut off before a byte of it is sent out.
func TestServerNames(t *testing.T) {
	t.Parallel()
	server, roots := secure(t)
	w := newWorld()
	w.at("example.com", "93.184.216.34:443", server.Listener.Addr())
	g := guard(t, netnstest.User, w, []string{"example.com:443"}, nil)
	addr := g.gate.table.names["example.com"].String() + ":443"

	shake := func(config *tls.Config) error {
		conn, err := g.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		return tls.Client(conn, config).Handshake()
	}
	if err := shake(&tls.Config{RootCAs: roots, ServerName: "example.com"}); err != nil {
		t.Errorf("the rule's name: %v", err)
	}
	g.expect(t, "example.com:443", true, "example.com:443")
	for _, c := range []struct {
		config      *tls.Config
		target, why string
	}{
		{
			&tls.Config{RootCAs: roots, ServerName: "evil.example"}, "evil.example:443",
			"asked for evil.example by TLS in a connection to example.com:443",
		},
		{&tls.Config{InsecureSkipVerify: true}, "example.com:443", "names no server in its TLS"},
	} {
		if err := shake(c.config); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v, want a reset", c.target, err)
		}
		g.expect(t, c.target, false, c.why)
	}
}

// Plain HTTP also reaches only the rule's host, in every way in which a request can name a host.
func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld()
	server := web(t, "hello")
	w.at("example.com", "93.184.216.34:80", server.Listener.Addr())
	g := guard(t, netnstest.User, w, []string{"example.com:80"}, nil)
	for _, c := range []struct {
		request string
		ok      bool
	}{
		{"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", true},
		{"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", true},
		{"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", false},
		{"\r\nGET / HTTP/1.1\r\nHOST : evil.example\r\n\r\n", false},
		{"GET / HTTP/1.1\r\nHost: example.com\r\nHost: evil.example\r\n\r\n", false},
		{"GET http://evil.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n", false},
		{"CONNECT evil.example:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", false},
		{"GET / HTTP/1.1\r\nX: y\r\n\r\n", false},
	} {
		conn, err := g.Dial("tcp", g.gate.table.names["example.com"].String()+":80")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, c.request) // the connection may be reset
		answer, err := io.ReadAll(conn)
		conn.Close()
		if ok := err == nil && strings.HasPrefix(string(answer), "HTTP/1.1 200"); ok != c.ok {
			t.Errorf("%q: %q, %v, want it let through %t", c.request, answer, err, c.ok)
		}
	}
	g.expect(t, "evil.example:80", false, "asked for evil.example by HTTP in a connection to example.com:80")
}

// listening is a server behind a gate, with the received requests.
type listening struct {
	gate   *guarded
	server *httptest.Server
	mu     sync.Mutex // guards heard
	heard  []string
	ended  chan string // each entry of heard, once its handler has read the request
}

// listenTo starts a server for example.com behind a gate that allows it.
func listenTo(t *testing.T) *listening {
	t.Helper()
	l := &listening{ended: make(chan string, 8)}
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "" {
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, buf)
			return
		}
		body, err := io.ReadAll(req.Body)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.heard = append(l.heard, fmt.Sprintf("%s%s %d %v", req.Host, req.URL, len(body), err))
		l.ended <- l.heard[len(l.heard)-1]
		_, _ = fmt.Fprint(w, "ok")
	}))
	t.Cleanup(l.server.Close)
	w := newWorld()
	w.at("example.com", "93.184.216.34:80", l.server.Listener.Addr())
	l.gate = guard(t, netnstest.User, w, []string{"example.com:80"}, nil)
	return l
}

// dial connects to the server from inside.
func (l *listening) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := l.gate.Dial("tcp", l.gate.gate.table.names["example.com"].String()+":80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// Every request of a connection is checked, after any body, and a connection that changes to another protocol
// continues.
func TestEveryRequest(t *testing.T) {
	t.Parallel()
	l := listenTo(t)
	conn := l.dial(t)
	big := strings.Repeat("b", 300_000)
	good := "PUT /1 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 300000\r\n\r\n" + big +
		"PUT /2 HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n493e0\r\n" + big +
		"\r\n0\r\nTrailer: x\r\n\r\n" +
		"GET /3 HTTP/1.1\r\nHost: example.com\r\n\r\n"
	if _, err := io.WriteString(conn, good); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for range 3 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("%s %q, %v", resp.Status, body, err)
		}
	}
	if _, err := io.WriteString(conn, "GET /4 HTTP/1.1\r\nHost: evil.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("another host in the fourth request: %v, want a reset", err)
	}
	l.gate.expect(t, "evil.example:80", false, "asked for evil.example by HTTP")
	l.mu.Lock()
	if want := []string{
		"example.com/1 300000 <nil>", "example.com/2 300005 <nil>", "example.com/3 0 <nil>",
	}; !slices.Equal(l.heard, want) {
		t.Errorf("the server heard %q, want %q", l.heard, want)
	}
	l.mu.Unlock()
}

// After a change of protocol the connection is relayed unchanged.
func TestAnotherProtocol(t *testing.T) {
	t.Parallel()
	l := listenTo(t)
	conn := l.dial(t)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: "+
		"echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", resp, err)
	}
	frame := []byte("\x81\x05hello\n")
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	if back, err := r.Peek(len(frame)); !bytes.Equal(back, frame) {
		t.Errorf("another protocol: %q, %v", back, err)
	}
}

// An incomplete request, and one with malformed chunks, ends the connection.
func TestBrokenRequests(t *testing.T) {
	t.Parallel()
	l := listenTo(t)
	// An incomplete request is not relayed; empty lines, which some clients add after a body, are accepted.
	conn := l.dial(t)
	if _, err := io.WriteString(
		conn, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\n\r\nx\r\n",
	); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
		t.Errorf("an empty line at the end: %q, %v", answer, err)
	}
	conn = l.dial(t)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.example"); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("half a request: %v, want a reset", err)
	}

	conn = l.dial(t)
	if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: "+
		"chunked\r\n\r\n5\r\nhelloGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a chunk without an end: %v, want a reset", err)
	}
	l.gate.expect(t, "example.com:80", false, "the chunks of a request are malformed")
	<-l.ended // the first request
	// Close must follow the handler: it closes a connection before the server has read its request.
	if last := <-l.ended; !strings.HasPrefix(last, "example.com/ 5 ") || !strings.Contains(last, "reset") {
		t.Errorf("the server heard %q, want the five bytes before the malformed line and a reset", last)
	}
}

// In every version of TLS and kind of handshake the data after the hello passes, except a second hello to another
// server.
func TestSecondHello(t *testing.T) {
	t.Parallel()
	var certificate tls.Certificate
	server, roots := secure(t)
	certificate = server.TLS.Certificates[0]
	var mu sync.Mutex
	var said bytes.Buffer
	w := newWorld()
	w.at("example.com", "93.184.216.34:443", speaker(t, func(conn *net.TCPConn) {
		// No client offers P-384 first, so a client of TLS 1.3 must send a second hello.
		s := tls.Server(
			conn,
			&tls.Config{Certificates: []tls.Certificate{certificate}, CurvePreferences: []tls.CurveID{tls.CurveP384}},
		)
		_, _ = io.Copy(s, s)
	}))
	w.at("raw.example", "93.184.216.35:443", speaker(t, func(conn *net.TCPConn) {
		all, _ := io.ReadAll(conn)
		mu.Lock()
		defer mu.Unlock()
		said.Write(all)
	}))
	g := guard(t, netnstest.User, w, []string{"example.com:443", "raw.example:443"}, nil)
	sessions := tls.NewLRUClientSessionCache(8)
	// Each twice: a new session and a resumed one.
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS13} {
		conn, err := g.Dial("tcp", g.gate.table.names["example.com"].String()+":443")
		if err != nil {
			t.Fatal(err)
		}
		client := tls.Client(conn, &tls.Config{
			RootCAs: roots, ServerName: "example.com", MinVersion: version, MaxVersion: version, ClientSessionCache: sessions,
			CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384},
		})
		back := make([]byte, 5)
		_, err = io.WriteString(client, "hello")
		if err == nil {
			_, err = io.ReadFull(client, back)
		}
		if err != nil || string(back) != "hello" {
			t.Errorf("%s: %q, %v", tls.VersionName(version), back, err)
		}
		client.Close()
	}

	for name, second := range map[string][]byte{
		"at once": hello("evil.example"), "in pieces": cut(hello("evil.example"), 3),
		"broken": []byte("\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03"),
	} {
		conn, err := g.Dial("tcp", g.gate.table.names["raw.example"].String()+":443")
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range [][]byte{hello("raw.example"), []byte("\x14\x03\x03\x00\x01\x01"), second} {
			if _, err := conn.Write(words); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("another server in a second hello %s: %v, want a reset", name, err)
		}
		conn.Close()
	}
	g.expect(t, "evil.example:443", false, "asked for evil.example by TLS in a connection to raw.example:443")
	g.stop()
	mu.Lock()
	defer mu.Unlock()
	if bytes.Contains(said.Bytes(), []byte("evil")) {
		t.Error("the second hello reached the server")
	}
}

// speaker is a server that calls do for each connection.
func speaker(t testing.TB, do func(conn *net.TCPConn)) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				do(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr()
}

// The server may send first while the program is silent, and each side can close its direction separately.
func TestBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.at("mail.example", "93.184.216.34:25", speaker(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "220 at your service\r\n")
		all, _ := io.ReadAll(conn)
		_, _ = fmt.Fprintf(conn, "221 %d bytes\r\n", len(all))
	}))
	g := guard(t, netnstest.User, w, []string{"mail.example:25"}, nil)
	conn, err := g.Dial("tcp", g.gate.table.names["mail.example"].String()+":25")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); line != "220 at your service\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	said := bytes.Repeat([]byte("EHLO cage\r\n"), 200_000)
	if _, err := conn.Write(said); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); string(rest) != fmt.Sprintf("221 %d bytes\r\n", len(said)) {
		t.Errorf("%q, %v", rest, err)
	}
	g.expect(t, "mail.example:25", true, "mail.example:25")
}

// A broken connection of the server is broken for the program too.
func TestReset(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.at("a.example", "93.184.216.34:25", speaker(t, func(conn *net.TCPConn) {
		_, _ = io.ReadFull(conn, make([]byte, 4))
		_ = conn.SetLinger(0)
	}))
	g := guard(t, netnstest.User, w, []string{"a.example:25"}, nil)
	conn, err := g.Dial("tcp", g.gate.table.names["a.example"].String()+":25")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "1 2\n")
	if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a reset", err)
	}
}

// A client that does not name its host in time is cut off, and so is an idle connection.
func TestPatience(t *testing.T) {
	t.Parallel()
	w := newWorld()
	silent := speaker(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	w.at("a.example", "93.184.216.34:443", silent)
	w.at("a.example", "93.184.216.34:80", silent)
	slow := guard(
		t,
		netnstest.User,
		w,
		[]string{"a.example:443", "a.example:80"},
		func(o *Options) { o.HelloTimeout = 50 * time.Millisecond },
	)
	idle := guard(
		t,
		netnstest.User,
		w,
		[]string{"a.example:443"},
		func(o *Options) { o.IdleTimeout = 50 * time.Millisecond },
	)
	for _, c := range []struct {
		name     string
		g        *guarded
		port     string
		said     string
		patience string
	}{
		{"a hello in pieces", slow, "443", "\x16\x03\x01\x02", "sent no server name"},
		{"a request in pieces", slow, "80", "GET / HT", "sent no server name"},
		{"nothing", idle, "443", "", ""},
		{"a record and nothing more", idle, "443", "\x16\x03\x01\x02", ""},
	} {
		conn, err := c.g.Dial("tcp", c.g.gate.table.names["a.example"].String()+":"+c.port)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, c.said)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if err == nil { // otherwise the write has taken the error, and a read would see an end
			_, err = io.ReadAll(conn)
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s: %v, want a reset", c.name, err)
		}
		conn.Close()
		if c.patience != "" {
			c.g.expect(t, "a.example:"+c.port, false, c.patience)
		}
	}
}

// A thousand silent connections are the cage's limit; after their end other connections pass, and the end of a busy
// gate leaves neither a goroutine nor a descriptor.
func TestHalfOpen(t *testing.T) {
	w := newWorld()
	w.at("a.example", "93.184.216.34:80", web(t, "hello").Listener.Addr())
	const sockets = 4 // the namespace's descriptors, and those from the server to curl
	before := files(t)
	g := guard(t, netnstest.User, w, []string{"a.example:80"}, func(o *Options) { o.Connections = 100 })
	addr := g.gate.table.names["a.example"].String() + ":80"
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	refused := make(chan struct{}, 1000)
	for range 1000 {
		conn, err := g.Dial("tcp", addr)
		if err != nil {
			refused <- struct{}{} // reset during the handover
			continue
		}
		open = append(open, conn)
		go func() {
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNRESET) {
				refused <- struct{}{}
			}
		}()
	}
	for range 900 {
		<-refused
	}
	if n := len(g.gate.slots); n != 100 {
		t.Errorf("%d slots are taken, want 100", n)
	}
	g.expect(t, "a.example:80", false, "the cage has 100 connections already")
	closing := open
	open = nil
	for _, conn := range closing {
		conn.Close()
	}
	// The gate detects their end a little later.
	through := false
	for limit := time.Now().Add(time.Minute); !through && time.Now().Before(limit); {
		out, code := g.Run(t, "curl", "-sS", "http://a.example/")
		through = code == 0 && strings.HasPrefix(out, "hello")
	}
	if !through {
		t.Error("nothing gets through when they are gone")
	}
	g.stop()
	// Package net keeps pipes for its next copy in a pool; the garbage collector closes them.
	after := files(t)
	for limit := time.Now().Add(time.Minute); after > before+sockets && time.Now().Before(limit); after = files(t) {
		runtime.GC()
	}
	if after > before+sockets {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// A gate that is ended during traffic ends at once, with all its connections.
func TestEndWhileBusy(t *testing.T) {
	w := newWorld()
	w.at("a.example", "93.184.216.34:25", speaker(t, func(conn *net.TCPConn) {
		block := make([]byte, 64<<10)
		for {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	}))
	g := guard(t, netnstest.User, w, []string{"a.example:25"}, nil)
	var wg sync.WaitGroup
	for range 20 {
		conn, err := g.Dial("tcp", g.gate.table.names["a.example"].String()+":25")
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan struct{})
		wg.Go(func() {
			defer conn.Close()
			_, _ = io.ReadFull(conn, make([]byte, 1<<20))
			close(started)
			_, _ = io.Copy(io.Discard, conn)
		})
		<-started
	}
	g.stop()
	wg.Wait() // each reader saw the end of its connection
}

// A flood of queries and of refused connections is served at a limited rate, and the part not seen is counted.
func TestFlood(t *testing.T) {
	t.Parallel()
	g := guard(t, netnstest.User, newWorld(), []string{"a.example:443"}, nil)
	flood := `import socket, threading
def names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    q = bytes.fromhex("123401000001000000000000") + b"\x04evil\x07example\x00\x00\x01\x00\x01"
    for i in range(30000):
        try: s.sendto(q, ("127.0.0.1", 53))
        except OSError: pass
def tries():
    for i in range(10000):
        s = socket.socket(); s.setblocking(False)
        try: s.connect(("8.8.8.8", 1 + i % 60000))
        except OSError: pass
        s.close()
a = threading.Thread(target=names); b = threading.Thread(target=tries)
a.start(); b.start(); a.join(); b.join()`
	// Before the flood, because of a second's targets the first ones are told apart, and the two threads race for them.
	if out, code := g.Run(t, "getent", "hosts", "evil.example"); code == 0 {
		t.Errorf("a name without a rule: %q", out)
	}
	g.expect(t, "evil.example", false, "no rule for evil.example")
	if out, code := g.Run(t, "/usr/bin/python3", "-c", flood); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	g.expect(t, "*", false, "only counted")
	// The next query is still answered.
	if out, code := g.Run(t, "getent", "hosts", "a.example"); code != 0 || !strings.HasPrefix(out, "198.18.0.2") {
		t.Errorf("after the flood: %q, exit %d", out, code)
	}
}

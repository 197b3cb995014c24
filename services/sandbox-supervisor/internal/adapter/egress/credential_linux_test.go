package egress

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

const token = "ghp_0123456789abcdefSECRET"

// credentialServer is a TLS server that answers with the received headers.
func credentialServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/redirect":
			http.Redirect(w, req, "https://example.com/there", http.StatusFound)
			return
		case "/away":
			http.Redirect(w, req, "https://evil.example/", http.StatusFound)
			return
		case "/upload":
			n, err := io.Copy(io.Discard, req.Body)
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(w, n)
			return
		}
		w.Header().Set("X-Echo", req.Header.Get("Authorization"))
		w.Header().Set("Trailer", "X-End")
		_, _ = fmt.Fprintf(
			w, "%s %s %v proxied %q trailing %q auth %s", req.Host, req.URL, req.Header.Values("X-Mine"),
			req.Header.Get("Proxy-Authorization"), req.Trailer.Get("Authorization"),
			strings.Repeat(req.Header.Get("Authorization"), 3),
		)
		w.Header().Set("X-End", req.Header.Get("Authorization"))
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// The gate adds a credential to a program's plain HTTP requests, over TLS that it verifies. The program never sees the
// credential, and no answer contains it.
func TestCredential(t *testing.T) {
	t.Parallel()
	server := credentialServer(t)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	w := newWorld()
	w.at("example.com", "93.184.216.34:443", server.Listener.Addr())
	w.at("bare.example", "93.184.216.35:443", server.Listener.Addr())
	w.at("stranger.example", "93.184.216.36:443", server.Listener.Addr())
	g := guard(
		t,
		netnstest.User,
		w,
		[]string{"example.com:443", "bare.example:443", "stranger.example:443"},
		func(o *Options) {
			o.Outside.Roots = roots
			o.BodyBytes = 1000
			o.Credentials = []Credential{
				{Host: "example.com", Port: 443, Header: "Authorization", Value: "Bearer " + token},
				{
					Host:    "bare.example",
					Port:    443,
					Header:  "Authorization",
					Missing: "the credential of bare.example:443 refers to ${NOWHERE}, which is not set where kaged runs",
				},
				{Host: "stranger.example", Port: 443, Header: "Authorization", Value: "Bearer " + token},
				{Host: "unlisted.example", Port: 443, Header: "Authorization", Value: "Bearer " + token},
			}
		},
	)
	get := func(args ...string) string {
		out, _ := g.Run(t, append([]string{"curl", "-sS", "-i", "--max-time", "20"}, args...)...)
		if strings.Contains(out, token) {
			t.Errorf("%v: the token came back: %s", args, out)
		}
		return out
	}
	masked := strings.Repeat("*", len("Bearer "+token))
	out := get(
		"-H",
		"Authorization: Bearer mine",
		"-H",
		"X-Mine: 1",
		"-H",
		"Proxy-Authorization: x",
		"-H",
		"Connection: Authorization",
		"http://example.com/a/../b?q=1",
		"--path-as-is",
	)
	for _, want := range []string{
		"HTTP/1.1 200", "example.com /a/../b?q=1 [1] proxied \"\" trailing \"\" auth " + strings.Repeat(masked, 3),
		"X-Echo: " + masked,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	g.expect(t, "example.com:443 (with credential)", true, "example.com:443")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"http://example.com/redirect"}, "Location: http://example.com/there"},
		{[]string{"http://example.com/away"}, "Location: https://evil.example/"},
		{[]string{"-d", strings.Repeat("x", 1000), "http://example.com/upload"}, "\r\n\r\n1000"},
		{[]string{"-d", strings.Repeat("x", 1001), "http://example.com/upload"}, "HTTP/1.1 413"},
		{[]string{"-H", "Host: evil.example", "http://example.com/"}, "HTTP/1.1 421"},
		{[]string{"-X", "TRACE", "http://example.com/"}, "HTTP/1.1 405"},
		{[]string{"-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "http://example.com/"}, "HTTP/1.1 501"},
		{[]string{"http://bare.example/"}, "refers to ${NOWHERE}, which is not set"},
		// The certificate belongs to another host.
		{[]string{"http://stranger.example/"}, "kaged: stranger.example:443 cannot be reached: "},
	} {
		if out := get(c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: no %q in %s", c.args, c.want, out)
		}
	}
	if out, code := g.Run(t, "curl", "-sS", "http://unlisted.example/"); code == 0 {
		t.Errorf("a credential made a rule: %s", out)
	}
	g.expect(t, "stranger.example:443 (with credential)", false, "cannot be reached")
	// TLS by the program itself is permitted by the same rule, without the credential.
	if out, code := g.Run(t, "curl", "-sSk", "https://example.com/"); code != 0 || !strings.HasSuffix(out, "auth ") {
		t.Errorf("TLS of its own: %q, exit %d", out, code)
	}
}

// An answer that a host sends in pieces arrives in pieces, and the end of the gate ends it on both sides.
func TestCredentialStream(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(ended)
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	w := newWorld()
	w.at("example.com", "93.184.216.34:443", server.Listener.Addr())
	g := guard(t, netnstest.User, w, []string{"example.com:443"}, func(o *Options) {
		o.Outside.Roots = x509.NewCertPool()
		o.Outside.Roots.AddCert(server.Certificate())
		o.Credentials = []Credential{{Host: "example.com", Port: 443, Header: "Authorization", Value: "Bearer " + token}}
	})
	conn, err := g.Dial("tcp", g.gate.table.names["example.com"].String()+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "data: 1\n\n" {
		t.Errorf("%q, %v", event, err)
	}
	g.stop()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the program takes the stream for complete")
	}
	<-ended
}

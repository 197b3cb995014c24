package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

// BenchmarkThroughput passes a GiB from a server outside to a program, in the cage and without one.
func BenchmarkThroughput(b *testing.B) {
	const size = 1 << 30
	w := newWorld()
	server := speaker(b, func(conn *net.TCPConn) {
		block := make([]byte, 256<<10)
		for range size / len(block) {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	})
	w.at("a.example", "93.184.216.34:25", server)
	g := guard(b, netnstest.User, w, []string{"a.example:25"}, nil)
	for name, dial := range map[string]func() (net.Conn, error){
		"gate":   func() (net.Conn, error) { return g.Dial("tcp", g.gate.table.names["a.example"].String()+":25") },
		"direct": func() (net.Conn, error) { return net.Dial("tcp", server.String()) },
	} {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 256<<10)
			b.SetBytes(size)
			for b.Loop() {
				conn, err := dial()
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, buf)
				if err != nil || n != size {
					b.Fatalf("%d bytes, %v", n, err)
				}
				conn.Close()
			}
		})
	}
}

// BenchmarkGet measures a request on a new connection.
func BenchmarkGet(b *testing.B) {
	w := newWorld()
	server := web(b, "hello")
	w.at("a.example", "93.184.216.34:80", server.Listener.Addr())
	g := guard(b, netnstest.User, w, []string{"a.example:80"}, nil)
	for name, dial := range map[string]func() (net.Conn, error){
		"gate":   func() (net.Conn, error) { return g.Dial("tcp", g.gate.table.names["a.example"].String()+":80") },
		"direct": func() (net.Conn, error) { return net.Dial("tcp", server.Listener.Addr().String()) },
	} {
		b.Run(name, func(b *testing.B) {
			client := http.Client{Transport: &http.Transport{
				DisableKeepAlives: true,
				DialContext:       func(context.Context, string, string) (net.Conn, error) { return dial() },
			}}
			for b.Loop() {
				resp, err := client.Get("http://a.example/")
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}

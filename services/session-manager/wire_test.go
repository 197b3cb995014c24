package sessionmanager

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// wiretap is a proxy between a session-manager and the database. Once, it withholds the server's answer to a
// statement that contains a word: the server has executed the statement, but the client receives the error of a
// server that stops.
type wiretap struct {
	t      testing.TB
	real   *pgx.ConnConfig
	word   []byte
	taken  atomic.Bool
	copies sync.WaitGroup
}

// tap puts a wiretap in front of the world's database for session-managers that start later.
func (w *world) tap(word string) *wiretap {
	w.t.Helper()
	config, err := pgx.ParseConfig(w.app)
	if err != nil {
		w.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tap") // a socket's path must be short
	if err != nil {
		w.t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", config.Port)))
	if err != nil {
		w.t.Fatal(err)
	}
	tap := &wiretap{t: w.t, real: config, word: []byte(word)}
	tap.copies.Go(func() { tap.serve(listener) })
	w.t.Cleanup(func() {
		listener.Close()
		tap.copies.Wait()
		os.RemoveAll(dir)
	})
	u, err := url.Parse(w.app)
	if err != nil {
		w.t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", dir)
	query.Set("port", fmt.Sprint(config.Port))
	u.Host, u.RawQuery = "", query.Encode()
	w.app = u.String()
	return tap
}

func (p *wiretap) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := p.real.DialFunc(p.t.Context(), "unix",
			filepath.Join(p.real.Host, fmt.Sprintf(".s.PGSQL.%d", p.real.Port)))
		if err != nil {
			client.Close()
			continue
		}
		armed := new(atomic.Bool)
		p.copies.Go(func() {
			defer server.Close()
			buf := make([]byte, 1<<20) // a message with the word is smaller and arrives in one piece
			for {
				n, err := client.Read(buf)
				if bytes.Contains(buf[:n], p.word) && p.taken.CompareAndSwap(false, true) {
					armed.Store(true)
				}
				if _, failed := server.Write(buf[:n]); err != nil || failed != nil {
					return
				}
			}
		})
		p.copies.Go(func() {
			defer client.Close()
			p.answer(client, server, armed)
		})
	}
}

// answer relays the server's messages one by one.
func (p *wiretap) answer(client io.Writer, server io.Reader, armed *atomic.Bool) {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if !armed.Load() {
			if _, err := client.Write(append(bytes.Clone(head), body...)); err != nil {
				return
			}
			continue
		}
		if head[0] == 'Z' { // the end of the answer
			end := pgproto3.ErrorResponse{
				Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01",
				Message: "terminating connection due to administrator command",
			}
			out, err := end.Encode(nil)
			if err != nil {
				p.t.Error(err)
			}
			client.Write(out)
			return
		}
	}
}

package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/postgres/embedded"
)

// walPage is the size of a page of Postgres's log, the least that a commit writes.
const walPage = 8 << 10

// committer is a Postgres of its own, with the settings and on the disk of the daemon's, and a relay: a server that
// stores a message, asks the model and passes its answer on. They measure the least time that a durable message takes,
// without kaged.
type committer struct {
	server *embedded.Server
	conn   *pgx.Conn // of one request at a time
	log    *os.File  // a file like Postgres's log: written before, and written again in place
	model  string    // the URL of the model
	http   http.Server
	url    string // of the relay
}

func (w *world) committer(ctx context.Context) (_ *committer, err error) {
	dir := filepath.Join(w.dir, "commits")
	c := &committer{model: w.model.url}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.server, err = embedded.Start(ctx, embedded.Options{DataDir: dir}); err != nil {
		return nil, err
	}
	if c.conn, err = pgx.Connect(ctx, c.server.OwnerURL()); err != nil {
		return nil, err
	}
	if _, err = c.conn.Exec(ctx, "CREATE SCHEMA bench"); err != nil {
		return nil, err
	}
	if _, err = c.conn.Exec(ctx, "CREATE TABLE bench.messages (text text)"); err != nil {
		return nil, err
	}
	if c.log, err = os.Create(filepath.Join(dir, "flushes")); err != nil {
		return nil, err
	}
	if _, err = c.log.Write(make([]byte, 16*walPage)); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.url, c.http.Handler = "http://"+l.Addr().String(), http.HandlerFunc(c.relay)
	go func() { _ = c.http.Serve(l) }()
	return c, c.log.Sync()
}

// relay stores a message by one commit, and answers with the model's answer.
func (c *committer) relay(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = c.commit(r.Context())
	}
	var resp *http.Response
	if err == nil {
		resp, err = http.Post(c.model+"/v1/messages", "application/json", bytes.NewReader(body))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(w, resp.Body)
}

func (c *committer) close() {
	bounded, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	_ = c.http.Close()
	if c.conn != nil {
		_ = c.conn.Close(bounded)
	}
	if c.server != nil {
		_ = c.server.Stop(bounded)
	}
	if c.log != nil {
		_ = c.log.Close()
	}
}

// commit stores one row in one round trip and returns the time.
func (c *committer) commit(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	_, err := c.conn.Exec(ctx, "INSERT INTO bench.messages VALUES ($1)", "go")
	return time.Since(begun), err
}

// flush writes a page and flushes it, and returns the time.
func (c *committer) flush() (time.Duration, error) {
	begun := time.Now()
	_, err := c.log.WriteAt(make([]byte, walPage), 0)
	err = errors.Join(err, unix.Fdatasync(int(c.log.Fd())))
	return time.Since(begun), err
}

package pgtest

import (
	"context"
	"os"
	"testing"
	"time"

	"kaged.dev/pkg/postgres/embedded"
)

// Private is a server for one test, set up like a real one, that the test may stop, kill and start again on the same
// data. Its URLs stay the same. Only one goroutine at a time may use it.
type Private struct {
	t    testing.TB
	opts embedded.Options
	*embedded.Server
}

// Server returns a running private server. It is stopped, and its data removed, when the test ends.
func Server(t testing.TB) *Private {
	t.Helper()
	// Not t.TempDir, which is removed before the server has stopped.
	dir, err := os.MkdirTemp("", "kaged-pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Private{t: t, opts: embedded.Options{DataDir: dir, NoSync: true}}
	t.Cleanup(func() {
		p.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing a test database: %v", err)
		}
	})
	p.Start()
	return p
}

// Start starts the server again after Stop or Kill.
func (p *Private) Start() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), startLimit)
	defer cancel()
	server, err := embedded.Start(ctx, p.opts)
	if err != nil {
		p.t.Fatalf("starting a private PostgreSQL: %v", err)
	}
	p.Server = server
}

// Stop stops the server as an operator would. It has no effect on a stopped server.
func (p *Private) Stop() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), 20*time.Second)
	defer cancel()
	if p.Server == nil {
		return
	}
	if err := p.Server.Stop(ctx); err != nil {
		p.t.Errorf("stopping a private PostgreSQL: %v", err)
	}
	p.Server = nil
}

// Kill ends the server as kill -9 would; the next Start recovers committed data.
func (p *Private) Kill() {
	p.t.Helper()
	process, err := os.FindProcess(p.PID())
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		p.t.Fatalf("killing a private PostgreSQL: %v", err)
	}
	<-p.Done()
	_ = p.Server.Stop(p.t.Context())
	p.Server = nil
}

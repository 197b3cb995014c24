// Package bustest gives tests a real NATS server with JetStream, in the test's process and folder.
//
// Servers and connections belong to their test and end with it, goroutines included.
package bustest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/bus/embedded"
)

// New returns a connection to a new server for the test.
func New(t testing.TB) *bus.Conn {
	t.Helper()
	return Server(t).Connect(t)
}

// Private is a server that a test may stop and start again on the same store. Its connections reconnect by themselves.
// Its methods may be called from any goroutine, except that only one goroutine may stop and start it.
type Private struct {
	t        testing.TB
	storeDir string

	mu  sync.Mutex // guards the field below
	now *embedded.Server
}

// Server returns a running server. It is stopped when the test ends.
func Server(t testing.TB) *Private {
	t.Helper()
	s := &Private{t: t, storeDir: t.TempDir()}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// Start starts the server again after Stop.
func (s *Private) Start() {
	s.t.Helper()
	started, err := embedded.Start(embedded.Options{StoreDir: s.storeDir})
	if err != nil {
		s.t.Fatalf("starting NATS: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = started
}

// Stop stops the server. It has no effect on a stopped server.
func (s *Private) Stop() {
	s.mu.Lock()
	running := s.now
	s.now = nil
	s.mu.Unlock()
	if running != nil {
		running.Stop()
	}
}

// Connect returns a connection, which is closed when the test ends.
func (s *Private) Connect(t testing.TB) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{InProcess: s, Name: t.Name()})
	if err != nil {
		t.Fatalf("connecting to NATS: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Frames returns the stream of frames on a new connection.
func (s *Private) Frames(t testing.TB, cfg bus.FramesConfig) *bus.Frames {
	t.Helper()
	frames, err := bus.OpenFrames(context.WithoutCancel(t.Context()), s.Connect(t), cfg)
	if err != nil {
		t.Fatalf("opening the stream of frames: %v", err)
	}
	return frames
}

// DeleteStream deletes a stream, as when a server returns without its store.
func (s *Private) DeleteStream(t testing.TB, name string) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = js.DeleteStream(t.Context(), name)
	}
	if err != nil {
		t.Fatalf("deleting the stream %s: %v", name, err)
	}
}

// InProcessConn connects to the server that runs now, so that a Private can act as a server that restarts.
func (s *Private) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil, errors.New("the NATS server of this test is stopped")
	}
	return s.now.InProcessConn()
}

// Package testkit holds helpers for the tests of several packages; its subfolders hold the fakes.
package testkit

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ownpath"
)

// stopLimit is the time in which a service must stop; a test that reaches it has found a hang.
const stopLimit = time.Minute

// Own returns a path of kaged's own.
func Own(t testing.TB, path string) ownpath.Path {
	t.Helper()
	p, err := ownpath.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Options returns the options of a host for tests: its own data directory, no environment, and a discarded log.
func Options(t testing.TB) host.Options {
	return host.Options{
		DataDir: Own(t, t.TempDir()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "0.0.0-test",
		Getenv: func(string) string { return "" },
	}
}

// Lifecycle checks the contract of every service: it can be built and dropped without a start, runs, stops on request,
// does so twice in a row on the same data, and leaves no goroutine behind. opts returns the options of each start.
func Lifecycle(t *testing.T, m host.Module, opts func() host.Options) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	if _, err := host.New(opts(), m); err != nil {
		t.Fatalf("building: %v", err)
	}
	goleak.VerifyNone(t, before)
	for range 2 {
		h, err := host.New(opts(), m)
		if err != nil {
			t.Fatalf("building: %v", err)
		}
		Stop(t, Start(t, h))
	}
	goleak.VerifyNone(t, before)
}

// Running is a host started by a test.
type Running struct {
	*host.Host
	cancel context.CancelFunc
	done   chan error
}

// Start runs h and returns when every service serves. The test fails if h ends earlier.
func Start(t testing.TB, h *host.Host) *Running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{Host: h, cancel: cancel, done: make(chan error, 1)}
	started := make(chan struct{})
	go func() { r.done <- h.Run(ctx, func() { close(started) }) }()
	select {
	case <-started:
	case err := <-r.done:
		cancel()
		t.Fatalf("the services ended instead of starting: %v", err)
	}
	return r
}

// Stop stops a host of [Start] and waits; a second Stop has no effect.
func Stop(t testing.TB, r *Running) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		r.done <- nil
		if err != nil {
			t.Errorf("stopping: %v", err)
		}
	case <-time.After(stopLimit):
		t.Fatalf("the services do not stop")
	}
}

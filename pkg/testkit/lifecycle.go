// Package testkit holds helpers of several packages' tests; its folders hold the fakes and the harness.
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

// stopLimit is how long a service may take to stop; a test that reaches it has found a hang.
const stopLimit = 30 * time.Second

// Own is a place of kaged's own.
func Own(t testing.TB, path string) ownpath.Path {
	t.Helper()
	p, err := ownpath.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Options returns the options of a host for tests: a data directory of its own, no environment, and a silent log.
func Options(t testing.TB) host.Options {
	return host.Options{
		DataDir: Own(t, t.TempDir()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "0.0.0-test",
		Getenv: func(string) string { return "" },
	}
}

// Lifecycle proves the promises of every service: it can be built and thrown away unstarted, runs, stops on request,
// does so twice in a row on the same data, and leaves no goroutine behind. opts makes the options of each start.
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

// Running is a host that a test has started.
type Running struct {
	*host.Host
	cancel context.CancelFunc
	done   chan error
}

// Start runs h and returns when every service serves. The test fails if h ends before.
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

// Stop stops a service of [Start] and waits; a second Stop is harmless.
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

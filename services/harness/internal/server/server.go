// Package server implements the harness's RPCs: it translates requests for core, and results to events.
package server

import (
	"context"
	"log/slog"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/loop"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Workspaces finds the tool runner of a workspace.
type Workspaces interface {
	// Open returns the tool runner of a workspace. The empty name stands for the only workspace.
	Open(workspace string) (loop.Tools, error)
}

// Deps are the server's dependencies.
type Deps struct {
	Log        *slog.Logger
	Workspaces Workspaces
	Models     loop.Models
	Prices     loop.Prices
	// Watch may be nil.
	Watch loop.Watch
	// MaxHistoryBytes is the largest conversation of a run, in bytes.
	MaxHistoryBytes int
	// Limits bounds each run.
	Limits loop.Limits
	// Keep bounds the conversations that are kept between runs.
	Keep KeepLimits
	// Memories bounds the drivers' caches of encoded conversations; nil turns the caches off.
	Memories *llm.Memories
	// Hooks are called in this order.
	Hooks []loop.Hook
	// CagesOnly refuses agents without a cage.
	CagesOnly bool
}

// Server is the harness's gRPC server. Drain and Stop are safe to call at any time, and twice.
//
// Goroutines: one for each run, which reads the caller's stream until it ends; one for each Drain, which ends with
// the last run.
type Server struct {
	harnessv1.UnimplementedHarnessServiceServer
	deps Deps
	// meters are the corrections of token estimates.
	meters loop.Meters
	// beat counts the streams of all runs.
	beat  loop.Beat
	talks *talks

	runs     sync.WaitGroup // active runs
	helpers  sync.WaitGroup // the goroutines of runs and of Drain
	mu       sync.Mutex     // guards draining, so that no run starts after it is set
	draining bool
	stopping context.Context // ended by Drain: runs stop at their next step boundary
	stop     context.CancelFunc
	ctx      context.Context
	cancel   context.CancelCauseFunc // ends every run at once
}

// New returns a server.
func New(deps Deps) *Server {
	s := &Server{deps: deps, talks: newTalks(deps.Keep)}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// begin counts a run. It refuses the run if the server stops.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return contract.HarnessStopping()
	}
	s.runs.Add(1)
	return nil
}

// Drain refuses new runs, lets each run stop at its next step boundary, and returns when all have ended. If ctx ends
// before, it ends them at once.
func (s *Server) Drain(ctx context.Context) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.stop()
	ended := make(chan struct{})
	s.helpers.Go(func() {
		defer close(ended)
		s.runs.Wait()
	})
	select {
	case <-ended:
	case <-ctx.Done():
		s.cancel(loop.Stopped())
	}
}

// Stop ends every run and returns when all goroutines of the server have ended. The gRPC server must be stopped
// before: a run with a caller that does not read ends only with its stream.
func (s *Server) Stop() {
	s.cancel(loop.Stopped())
	s.Drain(s.ctx)
	s.runs.Wait()
	s.helpers.Wait()
	s.talks.close()
}

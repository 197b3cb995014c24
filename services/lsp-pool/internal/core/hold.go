package core

import (
	"context"

	"kaged.dev/pkg/fault"
)

// Drain ends the holds.
func (p *Pool) Drain() { p.drain() }

// Hold holds the servers until ctx ends. The end of the last hold stops all servers, because the processes that needed
// them have ended. If there was no hold at all, servers are stopped when they are idle. Hold fails with unavailable
// when the pool stops.
func (p *Pool) Hold(ctx context.Context, opened func() error) error {
	p.mu.Lock()
	p.holds++
	p.mu.Unlock()
	err := opened()
	if err == nil {
		select {
		case <-ctx.Done():
		case <-p.draining:
			err = fault.New(fault.Unavailable, "The language servers are being stopped.").With("subsystem", "lsp-pool")
		}
	}
	p.mu.Lock()
	p.holds--
	last := p.holds == 0
	p.mu.Unlock()
	if last {
		p.each(func(*server) bool { return true }, func(s *server) { s.stop(context.WithoutCancel(ctx), Shutdown) })
	}
	return err
}

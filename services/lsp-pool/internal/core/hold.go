package core

import (
	"context"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/late"
)

// Drain ends the holds and stops the servers. Then it ends the watches, after they have passed the records of that.
func (p *Pool) Drain(ctx context.Context) {
	p.drain()
	p.endAll(ctx)
	p.finish()
}

// WatchRecords passes the records that no answer has returned to tell until ctx ends; see [late.Log.Watch]. It fails
// with unavailable when the pool stops.
func (p *Pool) WatchRecords(ctx context.Context, tell func(late.Record) error) error {
	if err := p.opts.Records.Watch(ctx, p.drained, tell); err != nil || ctx.Err() != nil {
		return err
	}
	return stopping()
}

// Told acknowledges a record.
func (p *Pool) Told(id string) { p.opts.Records.Told(id) }

func stopping() error {
	return fault.New(fault.Unavailable, "The language servers are being stopped.").With("subsystem", "lsp-pool")
}

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
			err = stopping()
		}
	}
	p.mu.Lock()
	p.holds--
	last := p.holds == 0
	p.mu.Unlock()
	if last {
		p.endAll(context.WithoutCancel(ctx))
	}
	return err
}

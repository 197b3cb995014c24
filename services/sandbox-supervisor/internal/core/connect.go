package core

import (
	"context"
	"io"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// Port is the destination of a connection.
type Port struct {
	// Owner is the owner of the connecting program.
	Owner contract.Owner
	// CageID is the cage with the loopback, "" for that of uncaged commands.
	CageID string
	Number int
}

// Connect connects to a port of a cage's loopback, or of the loopback of uncaged commands. ctx limits only the wait for
// the connection. It fails with invalid_params for a port without a listener, with rate_limited if there are too many
// connections, and for a cage as Start does.
func (s *Supervisor) Connect(ctx context.Context, p Port) (io.ReadWriteCloser, error) {
	if err := checkOwner(p.Owner, "A connection"); err != nil {
		return nil, err
	}
	if p.Number < 1 || p.Number > 0xffff {
		return nil, invalid("port", "%d is no port; one is between 1 and 65535.", p.Number)
	}
	spawner, err := s.listening(ctx, p)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, stopping()
	case s.connections >= s.limits.MaxCommands:
		return nil, fault.New(fault.RateLimited, "There are %d connections already, the most there may be at once.",
			s.connections).With("retry_after_ms", 1000)
	}
	s.connections++
	s.mu.Unlock()
	conn, err := spawner.Connect(ctx, p.Number)
	s.mu.Lock()
	if err != nil {
		s.connections--
		return nil, err
	}
	return &connection{ReadWriteCloser: conn, s: s}, nil
}

// listening returns the spawner that can connect to a port.
func (s *Supervisor) listening(ctx context.Context, p Port) (Spawner, error) {
	if s.limits.NoSandbox || p.CageID == "" {
		return s.spawner, nil
	}
	if err := s.canCage(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	c := s.held[p.CageID]
	over := c == nil || c.over()
	s.mu.Unlock()
	switch {
	case over:
		return nil, fault.New(fault.CageUnavailable, "The cage %.80s has ended.", p.CageID).With("cage_id", p.CageID)
	case !mayEnter(c.spec.Owner, p.Owner):
		return nil, fault.New(fault.Conflict, "The cage %s is another owner's.", p.CageID).With("cage_id", p.CageID)
	}
	select {
	case <-c.opened:
		if c.err != nil {
			return nil, c.err
		}
		return c.box, nil
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
}

// connection is a connection that counts until it is closed once.
type connection struct {
	io.ReadWriteCloser
	s *Supervisor
}

// Close implements io.Closer.
func (c *connection) Close() error {
	c.s.mu.Lock()
	c.s.connections--
	c.s.mu.Unlock()
	return c.ReadWriteCloser.Close()
}

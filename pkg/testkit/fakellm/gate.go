package fakellm

import (
	"context"
	"sync"
)

// Gate blocks answers until a test opens it.
type Gate struct {
	once    sync.Once
	open    chan struct{}
	reached chan struct{}
	first   sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{}), reached: make(chan struct{})} }

// Open releases all answers, present and later. It may be called more than once.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Reached waits until an answer is blocked at the gate; the part before the gate has been sent by then. It returns the
// context's error if the context ends first.
func (g *Gate) Reached(ctx context.Context) error {
	select {
	case <-g.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Gate) arrive() { g.first.Do(func() { close(g.reached) }) }

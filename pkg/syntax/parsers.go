package syntax

import (
	"context"
	"sync"
)

// Parsers lends parsers, at most so many at once, so that trees take a bounded amount of memory however many calls
// want one. It is safe for concurrent use.
type Parsers struct {
	turns chan struct{} // holds a token for each parser that is lent

	mu     sync.Mutex // guards the fields below
	idle   []*Parser
	closed bool
}

// NewParsers returns a lender of at most n parsers, which its owner closes.
func NewParsers(n int) *Parsers { return &Parsers{turns: make(chan struct{}, max(n, 1))} }

// Use calls use with a parser that is its alone meanwhile. It waits for one until ctx ends, and fails with
// [ErrUnavailable] if this build has no parser.
func (p *Parsers) Use(ctx context.Context, use func(*Parser) error) error {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turns }()
	parser, err := p.take()
	if err != nil {
		return err
	}
	defer p.put(parser)
	return use(parser)
}

func (p *Parsers) take() (*Parser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		parser := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return parser, nil
	}
	return NewParser()
}

func (p *Parsers) put(parser *Parser) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		parser.Close()
		return
	}
	p.idle = append(p.idle, parser)
}

// Close frees the parsers; those that are lent are freed when they come back.
func (p *Parsers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, parser := range p.idle {
		parser.Close()
	}
	p.idle = nil
}

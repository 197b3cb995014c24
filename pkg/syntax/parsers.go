package syntax

import (
	"context"
	"sync"
)

// Parsers lends a limited number of parsers, so that trees use limited memory for any number of calls. It is safe for
// concurrent use.
type Parsers struct {
	turns chan struct{} // holds a token for each lent parser

	mu     sync.Mutex // guards the fields below
	idle   []*Parser
	closed bool
}

// NewParsers returns a lender of at most n parsers. The caller must close it.
func NewParsers(n int) *Parsers { return &Parsers{turns: make(chan struct{}, max(n, 1))} }

// Use calls use with a parser for its exclusive use. It waits for a parser until ctx ends, and fails with
// [ErrUnavailable] if this build has no parsers.
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

// Close frees the parsers; lent parsers are freed when they are returned.
func (p *Parsers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, parser := range p.idle {
		parser.Close()
	}
	p.idle = nil
}

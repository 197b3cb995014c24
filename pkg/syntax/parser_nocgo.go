//go:build !cgo

package syntax

import "context"

// Parser cannot parse in this build, which has no cgo.
type Parser struct{}

// NewParser fails with [ErrUnavailable].
func NewParser() (*Parser, error) { return nil, ErrUnavailable }

// Close has no effect.
func (p *Parser) Close() {}

// Parse fails with [ErrUnavailable].
func (p *Parser) Parse(context.Context, *Language, []byte, int) (Tree, error) {
	return Tree{}, ErrUnavailable
}

// ParseWanted fails with [ErrUnavailable].
func (p *Parser) ParseWanted(context.Context, *Language, []byte, int, *Wanted) (Tree, error) {
	return Tree{}, ErrUnavailable
}

// Heap returns 0.
func Heap() int { return 0 }

type grammar struct{ symbols []string }

func grammars() map[string]*grammar { return nil }

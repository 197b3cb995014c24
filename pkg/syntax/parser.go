//go:build cgo

package syntax

// #include "flatten.h"
import "C"

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"unsafe"

	_ "github.com/smacker/go-tree-sitter" // the runtime used by flatten.c
)

// Parser parses one file at a time. It is not safe for concurrent use.
type Parser struct{ c *C.kaged_parser }

// NewParser returns a parser. The caller must close it.
func NewParser() (*Parser, error) {
	c := C.kaged_parser_new()
	if c == nil {
		return nil, errors.New("no memory for a parser")
	}
	return &Parser{c}, nil
}

// Close frees the parser and the trees it made.
func (p *Parser) Close() { C.kaged_parser_delete(p.c) }

// Parse parses text of at most [MaxText] bytes. The tree is valid until the next call. It fails with the context's
// error soon after the context ended, and with [ErrTooLarge] if the tree needs more than maxNodes nodes, or the parse
// much more memory than that of a source of this size.
func (p *Parser) Parse(ctx context.Context, lang *Language, text []byte, maxNodes int) (Tree, error) {
	return p.ParseWanted(ctx, lang, text, maxNodes, nil)
}

// ParseWanted is Parse for a caller that needs the wanted nodes only, nil for all.
func (p *Parser) ParseWanted(
	ctx context.Context, lang *Language, text []byte, maxNodes int, wanted *Wanted,
) (Tree, error) {
	if len(text) > MaxText {
		return Tree{}, ErrTooLarge
	}
	if err := ctx.Err(); err != nil {
		return Tree{}, err
	}
	flag := (*uintptr)(unsafe.Pointer(C.kaged_parser_flag(p.c)))
	atomic.StoreUintptr(flag, 0)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		atomic.StoreUintptr(flag, 1)
		close(ended)
	})
	base := unsafe.SliceData(text)
	if len(text) == 0 {
		base = &nothing
	}
	only, unpin := wanted.inC()
	defer unpin()
	count := C.kaged_parse(p.c, lang.grammar.pointer, (*C.char)(unsafe.Pointer(base)), C.uint32_t(len(text)),
		C.uint32_t(maxNodes), only)
	if !stop() {
		<-ended // the flag belongs to this parser, which may be freed before a late write
	}
	switch count {
	case C.KAGED_CANCELLED:
		if err := ctx.Err(); err != nil {
			return Tree{}, err
		}
		return Tree{}, errors.New("the parser stopped")
	case C.KAGED_TOO_MANY_NODES, C.KAGED_TOO_MUCH_MEMORY:
		return Tree{}, ErrTooLarge
	case C.KAGED_NO_MEMORY:
		return Tree{}, errors.New("no memory for the syntax tree")
	case C.KAGED_BAD_GRAMMAR:
		return Tree{}, errors.New("the grammar was made for another tree-sitter runtime")
	}
	nodes := unsafe.Slice((*Node)(unsafe.Pointer(C.kaged_parser_nodes(p.c))), int(count))
	return Tree{Language: lang, Text: text, Nodes: nodes}, nil
}

// inC returns w for C, and a function to call when C has returned.
func (w *Wanted) inC() (_ *C.kaged_wanted, unpin func()) {
	if w == nil {
		return nil, func() {}
	}
	var pinned runtime.Pinner
	places := unsafe.SliceData(w.Places)
	if places != nil {
		pinned.Pin(places)
	}
	return &C.kaged_wanted{
		places: (*C.uint32_t)(places), count: C.size_t(len(w.Places)), symbol: C.uint16_t(w.Symbol),
	}, pinned.Unpin
}

// nothing provides an address for an empty text, for which Go has no pointer.
var nothing byte

// Heap returns the size of the C heap in bytes, 0 if it is unknown. It is for tests that look for leaks.
func Heap() int { return int(C.kaged_heap()) }

// grammar is a language's parse table.
type grammar struct {
	pointer unsafe.Pointer
	symbols []string
}

func newGrammar(pointer unsafe.Pointer) *grammar {
	g := &grammar{pointer: pointer, symbols: make([]string, C.kaged_grammar_symbols(pointer))}
	for i := range g.symbols {
		g.symbols[i] = C.GoString(C.kaged_grammar_symbol(pointer, C.uint16_t(i)))
	}
	return g
}

func init() {
	if unsafe.Sizeof(Node{}) != C.sizeof_kaged_node {
		panic("syntax.Node and kaged_node differ")
	}
}

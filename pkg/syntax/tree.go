package syntax

import (
	"errors"
	"math"
)

// ErrUnavailable reports that this program was built without cgo and has no grammars.
var ErrUnavailable = errors.New("this build of kaged has no grammars: it was built without cgo")

// ErrTooLarge reports a text that is too long, has too many nodes, or takes too much memory to parse.
var ErrTooLarge = errors.New("the text is too large to parse")

// MaxText is the maximum length of a text for a [Parser], in bytes.
const MaxText = math.MaxInt32

// Tree is a syntax tree as an array in preorder. It has at least one node.
type Tree struct {
	Language *Language
	Text     []byte
	Nodes    []Node
}

// Wanted are the nodes of a tree that a caller needs: those of a kind that contain one of the places, with all that is
// in them. Elsewhere a node without a place may have no children. A text with a syntax error has its whole tree.
type Wanted struct {
	Symbol uint16
	// Places are offsets in the text in bytes, in ascending order.
	Places []uint32
}

// Node is one node. Its descendants are the nodes from the next index up to Next, each child followed by its own
// descendants.
type Node struct {
	// Start and End are the node's range in the text, in bytes.
	Start, End uint32
	// Next is the index of the first node after this one's subtree.
	Next uint32
	// Symbol is the node's kind; see [Language.Kind].
	Symbol uint16
	Flags  Flags
	_      uint8
}

// Flags are properties of a node.
type Flags uint8

// The flags.
const (
	// Named nodes are rules of the grammar; the others are keywords and punctuation.
	Named Flags = 1 << iota
	// Missing nodes are not in the text: the parser inserted them to continue after an error.
	Missing
	// Extra nodes may be anywhere, such as comments.
	Extra
	// NamedChild marks nodes with a named child.
	NamedChild
)

// ErrorSymbol is the kind of unparsed text.
const ErrorSymbol = math.MaxUint16

// Is reports whether a node has all of these flags.
func (n *Node) Is(f Flags) bool { return n.Flags&f == f }

// Source returns the text of a node. In some grammars a node may end after the text.
func (t *Tree) Source(i int) []byte {
	n := &t.Nodes[i]
	end := min(int(n.End), len(t.Text))
	return t.Text[min(int(n.Start), end):end]
}

// Children returns the indexes of a node's children.
func (t *Tree) Children(i int) []int {
	var list []int
	for c := i + 1; c < int(t.Nodes[i].Next); c = int(t.Nodes[c].Next) {
		list = append(list, c)
	}
	return list
}

// Failure returns the index of the first node with a syntax error, or -1.
func (t *Tree) Failure() int {
	for i := range t.Nodes {
		if t.Nodes[i].Symbol == ErrorSymbol || t.Nodes[i].Is(Missing) {
			return i
		}
	}
	return -1
}

// Span returns the range in bytes of count neighbours, beginning with the node at first. A count of 0 gives an empty
// range before that node.
func (t *Tree) Span(first, count int) (start, end int) {
	if first >= len(t.Nodes) {
		return len(t.Text), len(t.Text)
	}
	start = min(int(t.Nodes[first].Start), len(t.Text))
	end = start
	for at := first; count > 0; count-- {
		end = max(start, min(int(t.Nodes[at].End), len(t.Text)))
		at = int(t.Nodes[at].Next)
	}
	return start, end
}

package githead

import (
	"bytes"
	"iter"
)

// Kind is the kind of an entry of a folder.
type Kind int

// The kinds of entries. Links count as files with their target as content.
const (
	Other Kind = iota // a submodule
	File
	Folder
)

// Entry is an entry of a folder.
type Entry struct {
	Name string
	Kind Kind
	Hash Hash
}

// Tree is a folder.
type Tree []byte

// All returns the entries.
func (t Tree) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for rest := t; ; {
			e, after, ok := rest.next()
			if !ok || !yield(e) {
				return
			}
			rest = after
		}
	}
}

// whole reports whether the tree consists of entries.
func (t Tree) whole() bool {
	for len(t) > 0 {
		_, rest, ok := t.next()
		if !ok {
			return false
		}
		t = rest
	}
	return true
}

// next returns the first entry and the rest.
func (t Tree) next() (e Entry, rest Tree, ok bool) {
	mode, rest, ok := bytes.Cut(t, []byte{' '})
	name, rest, named := bytes.Cut(rest, []byte{0})
	if !ok || !named || len(rest) < len(e.Hash) {
		return e, nil, false
	}
	switch string(mode) {
	case "40000", "040000":
		e.Kind = Folder
	case "100644", "100755", "100664", "120000":
		e.Kind = File
	}
	e.Name = string(name)
	return e, rest[copy(e.Hash[:], rest):], true
}

package githead

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
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

// order returns where the entries begin, by name; whole reports whether the tree consists of entries. Entries of one
// name stay in their order.
func (t Tree) order() (order []int32, whole bool) {
	order = []int32{}
	for rest := t; len(rest) > 0; {
		_, after, ok := rest.next()
		if !ok {
			return nil, false
		}
		order = append(order, int32(len(t)-len(rest)))
		rest = after
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(bytes.Compare(t[a:].name(), t[b:].name()), cmp.Compare(a, b))
	})
	return order, true
}

// find returns the first entry of a name.
func (t Tree) find(order []int32, name string) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(order, []byte(name), func(at int32, name []byte) int {
		return bytes.Compare(t[at:].name(), name)
	})
	if !ok {
		return Entry{}, false
	}
	e, _, ok := t[order[i]:].next()
	return e, ok
}

// name returns the name of the first entry.
func (t Tree) name() []byte {
	_, rest, _ := bytes.Cut(t, []byte{' '})
	name, _, _ := bytes.Cut(rest, []byte{0})
	return name
}

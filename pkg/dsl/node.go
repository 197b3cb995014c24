package dsl

import (
	"strconv"
	"strings"

	"kaged.dev/pkg/clip"
)

// nodeKind is the kind of a node's value.
type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	intNode
	floatNode
	stringNode
	listNode
	mapNode
)

// node is a YAML value with its position. Nodes are shared (by YAML aliases and by merging) and immutable.
type node struct {
	kind nodeKind
	pos  Position
	// text is the value of a string, or the spelling of another scalar.
	text string
	// flag, int and float are the value of a boolean and of a number.
	flag  bool
	int   int64
	float float64
	// items are the elements of a list.
	items []*node
	// entries are the entries of a map in written order, each key once.
	entries []entry
}

// entry is a key of a map and its value.
type entry struct {
	key    string
	keyPos Position
	value  *node
}

// get returns the value under key, nil without one.
func (n *node) get(key string) *node {
	if e := n.entry(key); e != nil {
		return e.value
	}
	return nil
}

func (n *node) entry(key string) *entry {
	if n == nil {
		return nil
	}
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i]
		}
	}
	return nil
}

// at returns the value at a path such as fs[2].path below n, or the nearest value around it.
func (n *node) at(path string) *node {
	for part := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		next := n.get(part)
		if i, err := strconv.Atoi(part); err == nil && i < len(n.items) {
			next = n.items[i]
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// str returns the text of the string under key, "" without one.
func (n *node) str(key string) string {
	if v := n.get(key); v != nil && v.kind == stringNode {
		return v.text
	}
	return ""
}

// with returns a copy of the map n with another value for key; a nil value removes it.
func (n *node) with(key string, keyPos Position, value *node) *node {
	c := *n
	c.entries = make([]entry, 0, len(n.entries)+1)
	done := false
	for _, e := range n.entries {
		if e.key == key {
			done = true
			if value == nil {
				continue
			}
			e = entry{key, keyPos, value}
		}
		c.entries = append(c.entries, e)
	}
	if !done && value != nil {
		c.entries = append(c.entries, entry{key, keyPos, value})
	}
	return &c
}

// merge returns base overlaid with over: maps merge key by key, other values replace, and a null removes its key. It
// runs in time linear in the size of both, since agents can write both.
func merge(base, over *node) *node {
	if over.kind != mapNode {
		return over
	}
	if base == nil || base.kind != mapNode {
		base = &node{kind: mapNode, pos: over.pos}
	}
	laid := over.index()
	out := &node{kind: mapNode, pos: base.pos, entries: make([]entry, 0, len(base.entries)+len(over.entries))}
	known := make(map[string]bool, len(base.entries))
	for _, e := range base.entries {
		known[e.key] = true
		if i, ok := laid[e.key]; ok {
			e = entry{e.key, over.entries[i].keyPos, merge(e.value, over.entries[i].value)}
			if e.value.kind == nullNode {
				continue
			}
		}
		out.entries = append(out.entries, e)
	}
	for _, e := range over.entries {
		if known[e.key] || e.value.kind == nullNode {
			continue
		}
		out.entries = append(out.entries, entry{e.key, e.keyPos, merge(nil, e.value)})
	}
	return out
}

// index returns the index of each key of a map.
func (n *node) index() map[string]int {
	places := make(map[string]int, len(n.entries))
	for i, e := range n.entries {
		places[e.key] = i
	}
	return places
}

// value returns n as decoded by encoding/json.
func (n *node) value() any {
	switch n.kind {
	case boolNode:
		return n.flag
	case intNode:
		return float64(n.int)
	case floatNode:
		return n.float
	case stringNode:
		return n.text
	case listNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.value()
		}
		return list
	case mapNode:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			m[e.key] = e.value.value()
		}
		return m
	}
	return nil
}

// describe names the kind of n for a message.
func (n *node) describe() string {
	switch n.kind {
	case nullNode:
		return "empty"
	case listNode:
		return "a list"
	case mapNode:
		return "a mapping"
	case stringNode:
		return strconv.Quote(shown(n.text))
	}
	return shown(n.text)
}

// maxShown is the maximum length of a value in a message, in characters.
const maxShown = 60

func shown(value string) string { return clip.MarkedRunes(value, maxShown, "...") }

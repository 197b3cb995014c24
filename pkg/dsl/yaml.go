package dsl

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The limits of one file. The YAML parser needs time quadratic in the tokens of one mapping and stack linear in the
// nesting; both are checked before it runs.
const (
	// MaxFileSize is the maximum size of one file in bytes.
	MaxFileSize = 1 << 20
	maxTokens   = 20_000
	maxNesting  = 200
	maxNodes    = 50_000
	// maxProjectTokens limits all files of a project together.
	maxProjectTokens = 10 * maxTokens
)

// parseYAML returns the one document of a file, nil with a diagnostic for an unreadable file. For a file without a
// document it returns empty, or nil with a diagnostic if empty is nil.
func parseYAML(file string, data []byte, diags *diagnostics, empty *node) *node {
	enough := maxTokens + 1
	return parsePart(file, data, diags, empty, &enough)
}

// parsePart is parseYAML for one of several files with a common limit. It subtracts the file's tokens from tokens, the
// remaining number.
func parsePart(file string, data []byte, diags *diagnostics, empty *node, tokens *int) (root *node) {
	fail := func(pos Position, format string, args ...any) {
		pos.File = file
		diags.errorf(ParseError, pos, "", format, args...)
	}
	if len(data) > MaxFileSize {
		fail(Position{}, "The file is %d bytes long; at most %d are read.", len(data), MaxFileSize)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if pos, what := badText(data); what != "" {
		fail(pos, "The file holds %s.", what)
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			root = nil
			fail(Position{Line: 1, Column: 1}, "The file is not YAML that can be read.")
		}
	}()
	list := lexer.Tokenize(string(data))
	if pos, what := tooComplex(list); what != "" {
		fail(pos, "The file %s.", what)
		return nil
	}
	if *tokens -= len(list); *tokens < 0 {
		fail(
			Position{Line: 1, Column: 1},
			"The files of the project are longer than kaged reads: they have more than %d YAML tokens together.",
			maxProjectTokens,
		)
		return nil
	}
	parsed, err := parser.Parse(list, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil {
			fail(tokenPos(located.GetToken()), "This is not valid YAML: %s.", located.GetMessage())
		} else {
			fail(Position{}, "This is not valid YAML.")
		}
		return nil
	}
	c := converter{file: file, diags: diags, anchors: map[string]*node{}, empty: empty}
	return c.document(parsed)
}

// badText finds the first character that is invalid in a text file.
func badText(data []byte) (Position, string) {
	pos := Position{Line: 1, Column: 1}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return pos, "bytes that are not UTF-8"
		case r == '\n':
			pos.Line, pos.Column = pos.Line+1, 0
		case r != '\t' && r != '\r' && unicode.IsControl(r):
			return pos, fmt.Sprintf("the control character %U", r)
		}
		pos.Column++
		i += size
	}
	return pos, ""
}

// tooComplex finds the first part of a file that exceeds the parser's limits.
func tooComplex(tokens token.Tokens) (Position, string) {
	flow, run := 0, 0
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.AnchorType, token.TagType, token.MappingKeyType:
			run++
		case token.CommentType:
		default:
			run = 0
		}
		if flow > maxNesting || run > maxNesting {
			return tokenPos(t), fmt.Sprintf("nests deeper than %d levels here", maxNesting)
		}
		if i > maxTokens {
			return tokenPos(t), fmt.Sprintf("is longer than kaged reads: it has more than %d YAML tokens", maxTokens)
		}
	}
	return Position{}, ""
}

func tokenPos(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{Line: max(t.Position.Line, 1), Column: max(t.Position.Column, 1)}
}

// converter converts the parser's tree to nodes.
type converter struct {
	file    string
	diags   *diagnostics
	anchors map[string]*node
	nodes   int
	full    bool
	empty   *node
}

func (c *converter) fail(pos Position, format string, args ...any) {
	c.diags.errorf(ParseError, pos, "", format, args...)
}

func (c *converter) at(t *token.Token) Position {
	pos := tokenPos(t)
	pos.File = c.file
	return pos
}

func (c *converter) document(f *ast.File) *node {
	var bodies []ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if _, comment := doc.Body.(*ast.CommentGroupNode); !comment {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		if c.empty == nil {
			c.fail(Position{File: c.file, Line: 1, Column: 1}, "The file is empty.")
		}
		return c.empty
	case 1:
		before := c.diags.errors
		n := c.convert(bodies[0], 0)
		if c.diags.errors > before {
			return nil
		}
		return n
	}
	c.fail(c.at(firstToken(bodies[1])), "The file holds more than one YAML document.")
	return nil
}

func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return n.GetToken()
}

// convert converts n to a node. It reports values without a representation and uses null in their place.
func (c *converter) convert(n ast.Node, depth int) *node {
	if c.full {
		return &node{}
	}
	pos := Position{File: c.file}
	if n != nil {
		pos = c.at(n.GetToken())
	}
	c.nodes++
	if c.nodes > maxNodes || depth > maxNesting {
		c.full = true
		c.fail(pos, "The file expands to more than %d values or nests deeper than %d levels.", maxNodes, maxNesting)
		return &node{}
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return c.mapping(n.Values, pos, depth)
	case *ast.MappingValueNode:
		return c.mapping([]*ast.MappingValueNode{n}, pos, depth)
	case *ast.SequenceNode:
		list := &node{kind: listNode, pos: pos}
		for _, v := range n.Values {
			list.items = append(list.items, c.convert(v, depth+1))
		}
		return list
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		delete(c.anchors, name)
		v := c.convert(n.Value, depth)
		c.anchors[name] = v
		return v
	case *ast.AliasNode:
		return c.alias(n, pos, depth)
	case *ast.TagNode:
		return c.tagged(n, pos, depth)
	}
	return c.scalar(n, pos)
}

func (c *converter) scalar(n ast.Node, pos Position) *node {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return &node{pos: pos}
	case *ast.BoolNode:
		return &node{kind: boolNode, pos: pos, flag: n.Value, text: n.Token.Value}
	case *ast.IntegerNode:
		return integer(n, pos)
	case *ast.FloatNode:
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			c.fail(pos, "A number must be finite.")
			return &node{pos: pos}
		}
		return &node{kind: floatNode, pos: pos, float: n.Value, text: n.Token.Value}
	case *ast.StringNode:
		return &node{kind: stringNode, pos: pos, text: n.Value}
	case *ast.LiteralNode:
		return &node{kind: stringNode, pos: pos, text: n.Value.Value}
	case *ast.InfinityNode, *ast.NanNode:
		c.fail(pos, "A number must be finite.")
	default:
		c.fail(pos, "This kind of YAML value is not read.")
	}
	return &node{pos: pos}
}

// integer converts n to an integer, or to a float if it does not fit one.
func integer(n *ast.IntegerNode, pos Position) *node {
	switch v := n.Value.(type) {
	case int64:
		return &node{kind: intNode, pos: pos, int: v, text: n.Token.Value}
	case uint64:
		if v <= math.MaxInt64 {
			return &node{kind: intNode, pos: pos, int: int64(v), text: n.Token.Value}
		}
		return &node{kind: floatNode, pos: pos, float: float64(v), text: n.Token.Value}
	}
	return &node{kind: stringNode, pos: pos, text: n.Token.Value}
}

// alias returns the value of an alias, and counts every node that it repeats.
func (c *converter) alias(n *ast.AliasNode, pos Position, depth int) *node {
	name := n.Value.GetToken().Value
	target, known := c.anchors[name]
	if !known {
		c.fail(pos, "There is no anchor &%s before this alias, or the alias is inside it.", shown(name))
		return &node{pos: pos}
	}
	if !c.count(target, depth) {
		c.full = true
		c.fail(pos, "The file expands to more than %d values or nests deeper than %d levels.", maxNodes, maxNesting)
		return &node{pos: pos}
	}
	return target
}

func (c *converter) count(n *node, depth int) bool {
	c.nodes++
	if c.nodes > maxNodes || depth > maxNesting {
		return false
	}
	for _, item := range n.items {
		if !c.count(item, depth+1) {
			return false
		}
	}
	for _, e := range n.entries {
		if !c.count(e.value, depth+1) {
			return false
		}
	}
	return true
}

// tagged reads the tags of the core schema that confirm a value's type, and !!str, which makes a scalar a string.
func (c *converter) tagged(n *ast.TagNode, pos Position, depth int) *node {
	v := c.convert(n.Value, depth)
	want := map[string]nodeKind{
		"!!null": nullNode, "!!bool": boolNode, "!!int": intNode, "!!float": floatNode,
		"!!str": stringNode, "!!seq": listNode, "!!map": mapNode,
	}
	kind, known := want[n.Start.Value]
	switch {
	case known && v.kind == kind:
		return v
	case known && kind == stringNode && v.kind != listNode && v.kind != mapNode:
		return &node{kind: stringNode, pos: v.pos, text: v.text}
	case known && kind == floatNode && v.kind == intNode:
		return &node{kind: floatNode, pos: v.pos, float: float64(v.int), text: v.text}
	}
	c.fail(pos, "The tag %s cannot be used here.", shown(n.Start.Value))
	return &node{pos: pos}
}

func (c *converter) mapping(values []*ast.MappingValueNode, pos Position, depth int) *node {
	m := &node{kind: mapNode, pos: pos}
	seen := make(map[string]Position, len(values))
	var merged []*node
	for i, v := range values {
		keyPos := c.at(v.Key.GetToken())
		if i == 0 {
			m.pos = keyPos
		}
		if v.Key.IsMergeKey() {
			merged = append(merged, c.mergeSources(v, depth)...)
			continue
		}
		key, ok := c.key(v.Key, keyPos)
		if !ok {
			continue
		}
		if first, dup := seen[key]; dup {
			c.fail(keyPos, "The key %q is already set on line %d.", shown(key), first.Line)
			continue
		}
		seen[key] = keyPos
		m.entries = append(m.entries, entry{key, keyPos, c.convert(v.Value, depth+1)})
	}
	for _, source := range merged {
		for _, e := range source.entries {
			if _, own := seen[e.key]; !own {
				seen[e.key] = e.keyPos
				m.entries = append(m.entries, e)
			}
		}
	}
	return m
}

// mergeSources returns the maps that a merge key << includes.
func (c *converter) mergeSources(v *ast.MappingValueNode, depth int) []*node {
	n := c.convert(v.Value, depth+1)
	sources := []*node{n}
	if n.kind == listNode {
		sources = n.items
	}
	for _, s := range sources {
		if s.kind != mapNode {
			c.fail(c.at(v.Key.GetToken()), "Only mappings can be merged with <<.")
			return nil
		}
	}
	return sources
}

func (c *converter) key(k ast.MapKeyNode, pos Position) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.LiteralNode:
		return k.Value.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode, *ast.NullNode:
		return k.GetToken().Value, true
	case *ast.MappingKeyNode:
		if inner, ok := k.Value.(ast.MapKeyNode); ok {
			return c.key(inner, c.at(inner.GetToken()))
		}
	}
	c.fail(pos, "A key must be plain text.")
	return "", false
}

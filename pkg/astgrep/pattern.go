package astgrep

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/syntax"
)

// MaxPattern is the maximum length of a pattern in bytes; patternTime is the time limit for parsing one. A few words
// that fit no rule of a grammar can occupy a parser's error recovery for minutes.
const (
	MaxPattern  = 64 << 10
	patternTime = 2 * time.Second
)

// Pattern is a compiled pattern. It is safe for concurrent use.
type Pattern struct {
	lang *syntax.Language
	root node
	vars []variable
	// needs are the texts that occur in every file with a match, the longest first.
	needs [][]byte
	// anchor is the longest text that every match contains, nil if no text is sure to be in each.
	anchor []byte
	// source is the caller's text.
	source string
}

// Language is the language of the pattern.
func (p *Pattern) Language() *syntax.Language { return p.lang }

// Kind is the kind of the matched nodes, "" for any kind.
func (p *Pattern) Kind() string {
	if p.root.kind == wildcard {
		return ""
	}
	return p.lang.Kind(p.root.symbol)
}

// variable is a captured meta variable.
type variable struct {
	name  string
	multi bool
}

// node is a part of a pattern.
type node struct {
	kind     kind
	symbol   uint16
	named    bool   // terminal: a rule of the grammar; wildcard: matches such nodes only
	multi    bool   // wildcard: matches any number of nodes
	slot     int    // wildcard: index of its variable, -1 for none
	text     []byte // terminal
	children []node // inner
	// again is true if the subtree has a multi variable that also occurs elsewhere in the pattern.
	again bool
}

type kind uint8

const (
	terminal kind = iota // a node without children
	inner                // a node with children
	wildcard             // a meta variable
)

// trivial reports whether a node is a keyword or punctuation, which a preceding $$$ may skip.
func (n *node) trivial() bool { return n.kind == terminal && !n.named }

func (n *node) ellipsis() bool { return n.kind == wildcard && n.multi }

// Compile compiles a pattern. It fails with [*PatternError] if the pattern is not one complete
// node, with [syntax.ErrUnavailable] if no parser is built in, and with the context's error.
func Compile(ctx context.Context, parser *syntax.Parser, lang *syntax.Language, source string) (*Pattern, error) {
	if len(source) > MaxPattern {
		return nil, &PatternError{Pattern: source, Problem: "is too long"}
	}
	limited, cancel := context.WithTimeout(ctx, patternTime)
	defer cancel()
	var first error
	for text, end := range spellings(lang, source) {
		tree, err := parser.Parse(limited, lang, []byte(text), 4*MaxPattern)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			return nil, &PatternError{
				Pattern: source, Problem: "is not complete " + lang.Name + " code: no reading of it was found in " +
					patternTime.String(),
				Advice: advice(lang),
			}
		}
		if err != nil {
			return nil, err
		}
		c := compiler{
			tree:    &tree,
			end:     end,
			usual:   first == nil,
			source:  source,
			pattern: &Pattern{lang: lang, source: source},
		}
		if err = c.compile(); err == nil {
			return c.pattern, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

type compiler struct {
	tree    *syntax.Tree
	end     int  // where the pattern ends in the parsed text
	usual   bool // the pattern is in its usual spelling
	source  string
	pattern *Pattern
	used    map[variable]int
}

func (c *compiler) compile() error {
	if !slices.ContainsFunc(c.tree.Children(0), func(i int) bool { return !c.tree.Nodes[i].Is(syntax.Missing) }) {
		return &PatternError{Pattern: c.source, Problem: "has no code in it"}
	}
	// A root that is one error node is still a meta variable if its whole text is one.
	if v, ok := c.wildcard(0); ok && !v.ellipsis() {
		c.use(0, &v)
		c.pattern.root = v
		return nil
	}
	if !c.single(0) {
		return c.several()
	}
	at := 0
	for c.single(at) {
		at++ // the first child
	}
	c.used = map[variable]int{}
	root, err := c.convert(at)
	if err != nil {
		return err
	}
	if root.ellipsis() {
		return &PatternError{Pattern: c.source, Problem: "is nothing but " + c.source +
			", which stands for any number of neighbours and so needs something around it"}
	}
	c.mark(&root)
	c.pattern.root = root
	c.collect(&root)
	c.pattern.anchor = c.anchor(&root)
	slices.SortStableFunc(c.pattern.needs, func(a, b []byte) int { return len(b) - len(a) })
	return nil
}

// single reports whether a node's text is that of its first child. Some grammars add an empty node after the child.
func (c *compiler) single(i int) bool {
	children := c.tree.Children(i)
	if n := len(children); n > 1 && int(c.tree.Nodes[children[n-1]].Start) >= c.end {
		children = children[:n-1]
	}
	switch len(children) {
	case 1:
		return true
	case 2:
		second := &c.tree.Nodes[children[1]]
		return second.Is(syntax.Missing) || c.tree.Language.Kind(second.Symbol) == ""
	}
	return false
}

// convert turns a node of the pattern's tree into a part of the pattern.
func (c *compiler) convert(i int) (node, error) {
	n := &c.tree.Nodes[i]
	// In the usual spelling an error node may be a meta variable: the grammar has no place for a name there.
	if v, ok := c.wildcard(i); ok && (n.Symbol != syntax.ErrorSymbol || c.usual) {
		c.use(i, &v)
		return v, nil
	}
	if n.Symbol == syntax.ErrorSymbol {
		return node{}, c.broken(i)
	}
	children := c.tree.Children(i)
	if len(children) == 0 {
		text := asWritten(c.tree.Language, c.source, string(c.tree.Source(i)))
		return node{kind: terminal, symbol: n.Symbol, named: n.Is(syntax.Named), text: []byte(text)}, nil
	}
	out := node{kind: inner, symbol: n.Symbol}
	for _, child := range children {
		if c.tree.Nodes[child].Is(syntax.Missing) {
			if err := c.missing(child); err != nil {
				return node{}, err
			}
			continue
		}
		part, err := c.convert(child)
		if err != nil {
			return node{}, err
		}
		out.children = append(out.children, part)
	}
	return out, nil
}

// wildcard returns the meta variable that is a node's whole text.
func (c *compiler) wildcard(i int) (node, bool) {
	return parseVariable(c.variable(i), c.tree.Language.Sigil)
}

// variable returns the text of a node for the search for a meta variable.
func (c *compiler) variable(i int) string {
	return respell(c.tree.Language, string(c.tree.Source(i)))
}

// use gives a meta variable its slot.
func (c *compiler) use(i int, v *node) {
	if v.slot < 0 {
		return
	}
	key := variable{strings.TrimLeft(c.variable(i), string(c.tree.Language.Sigil)), v.multi}
	v.slot = slices.Index(c.pattern.vars, key)
	if v.slot < 0 {
		v.slot = len(c.pattern.vars)
		c.pattern.vars = append(c.pattern.vars, key)
	}
	if c.used != nil {
		c.used[key]++
	}
}

// mark sets again in the ancestors of a multi variable that is used more than once.
func (c *compiler) mark(n *node) bool {
	if n.kind == wildcard {
		n.again = n.multi && n.slot >= 0 && c.used[c.pattern.vars[n.slot]] > 1
		return n.again
	}
	for i := range n.children {
		n.again = c.mark(&n.children[i]) || n.again
	}
	return n.again
}

// collect gathers the texts of the pattern's leaves that occur in every match.
func (c *compiler) collect(n *node) {
	if c.literal(n) {
		if !slices.ContainsFunc(c.pattern.needs, func(have []byte) bool { return bytes.Equal(have, n.text) }) {
			c.pattern.needs = append(c.pattern.needs, n.text)
		}
	}
	for i := range n.children {
		c.collect(&n.children[i])
	}
}

// literal reports whether a part of the pattern is a text of some length that occurs in every match. Keywords count
// too, because their text names their kind, except in languages with case-insensitive keywords. Other unnamed nodes may
// be spelt in several ways: C has "#define" and "# define", Python "not in" with any space, Ruby :"a" and %s(a).
func (c *compiler) literal(n *node) bool {
	if n.kind != terminal || len(n.text) < 2 {
		return false
	}
	keyword := word(n.text) && string(n.text) == c.tree.Language.Kind(n.symbol)
	return n.named || keyword && !anyCase[c.tree.Language.Name]
}

// word reports whether text has only letters and underscores of ASCII.
func word(text []byte) bool {
	for _, b := range text {
		if b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') {
			return false
		}
	}
	return true
}

// anchor returns the longest literal of a part of the pattern that is in each of its matches. A $$$ may skip keywords
// after it.
func (c *compiler) anchor(n *node) (longest []byte) {
	if c.literal(n) {
		return n.text
	}
	skipped := false
	for i := range n.children {
		child := &n.children[i]
		skipped = child.ellipsis() || skipped && child.trivial()
		if skipped {
			continue
		}
		if text := c.anchor(child); len(text) > len(longest) {
			longest = text
		}
	}
	return longest
}

// anyCase are the languages with case-insensitive keywords.
var anyCase = map[string]bool{"php": true, "html": true, "css": true}

// Parse parses a text for [Pattern.Find], and for [Rewrite] with this pattern alone. Of a text without a syntax error
// the tree has the nodes that can match, with all that is in them: laying out the others would take a fifth of the time
// of parsing.
func (p *Pattern) Parse(ctx context.Context, parser *syntax.Parser, text []byte, maxNodes int) (syntax.Tree, error) {
	if p.anchor == nil {
		return parser.Parse(ctx, p.lang, text, maxNodes)
	}
	wanted := syntax.Wanted{Symbol: p.root.symbol}
	for at := 0; ; at++ {
		next := bytes.Index(text[at:], p.anchor)
		if next < 0 {
			break
		}
		at += next
		wanted.Places = append(wanted.Places, uint32(at))
	}
	return parser.ParseWanted(ctx, p.lang, text, maxNodes, &wanted)
}

// Possible reports whether a text can have a match.
func (p *Pattern) Possible(text []byte) bool {
	for _, need := range p.needs {
		if !bytes.Contains(text, need) {
			return false
		}
	}
	return true
}

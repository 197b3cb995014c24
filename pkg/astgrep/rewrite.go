package astgrep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/syntax"
)

// Rule rewrites the matches of a pattern.
type Rule struct {
	Pattern *Pattern
	parts   []part
	step    string // one step of the replacement's indentation, if it uses spaces
}

// part is a piece of a replacement: a text, or the value of a variable.
type part struct {
	text string
	slot int // index of the variable, negative for a text
	// indent is the white space at the beginning of the template's line.
	indent string
}

// NewRule compiles a replacement, which uses the variables of its pattern. It fails with [*PatternError] if it uses
// other variables. A dollar is text if no meta variable follows it: alone, before a digit ($5), before a small letter
// ($lower, $Total), and, in languages with a dollar in their own variables, before any name that the pattern does not
// capture.
func NewRule(pattern *Pattern, replacement string) (*Rule, error) {
	if len(replacement) > MaxPattern {
		return nil, &PatternError{
			Pattern: pattern.source,
			Problem: "has a replacement that is too long",
			Advice:  fmt.Sprintf("A replacement has at most %d bytes.", MaxPattern),
		}
	}
	r := &Rule{Pattern: pattern, step: stepOf(replacement)}
	from := 0
	for i := 0; i < len(replacement); {
		if replacement[i] != '$' {
			i++
			continue
		}
		end := i
		for end < len(replacement) && replacement[end] == '$' && end < i+3 {
			end++
		}
		multi := end == i+3
		name := end
		for end < len(replacement) && nameByte(replacement[end]) {
			end++
		}
		if end == name {
			i = end
			continue
		}
		slot := slices.Index(pattern.vars, variable{replacement[name:end], multi})
		if slot < 0 {
			if isText := dollars[pattern.lang.Name] || isDigit(replacement[name]) || inWord(replacement[end:]); !isText {
				return nil, pattern.undefined(replacement[i:end])
			}
			i = end
			continue
		}
		r.parts = append(
			r.parts,
			part{text: replacement[from:i], slot: -1},
			part{slot: slot, indent: lineIndent(replacement[:i])},
		)
		from, i = end, end
	}
	r.parts = append(r.parts, part{text: replacement[from:], slot: -1})
	return r, nil
}

// dollars are the languages in which names of variables begin with a dollar.
var dollars = map[string]bool{"bash": true, "php": true}

func (p *Pattern) undefined(name string) error {
	e := &PatternError{Pattern: p.source, Problem: "does not capture " + name + ", which its replacement uses"}
	if have := p.Variables(); len(have) > 0 {
		e.Advice = "It captures " + strings.Join(have, ", ") + "."
	} else {
		e.Advice = "It captures nothing; $NAME in the pattern captures one node, $$$NAME any number."
	}
	return e
}

// Edit replaces the bytes from Start up to End by Text. Rule is the index of its rule.
type Edit struct {
	Start, End, Rule int
	Text             string
}

// Rewrite returns the edits of the rules in a tree, in the order of the text. No two edits overlap: of two matches of
// one rule the outer wins, and of two rules the first. A match without a change gives no edit. It returns the context's
// error if the context ended the search, and [ErrTooLarge] if the new texts have more than limit bytes together: a
// replacement may use a variable any number of times.
func Rewrite(ctx context.Context, tree *syntax.Tree, rules []*Rule, limit int) ([]Edit, error) {
	var edits []Edit
	style := styleOf(tree)
	left, over := limit, false
	for i, rule := range rules {
		var own []Edit
		err := rule.Pattern.Find(ctx, tree, false, func(m Match) bool {
			n := &tree.Nodes[m.Node]
			start, end := tree.Span(m.Node, 1)
			if n.Start == n.End || overlaps(edits, start, end) {
				return true
			}
			b := builder{limit: left}
			rule.replace(&b, tree, style, m)
			own = append(own, Edit{start, end, i, b.String()})
			left, over = left-b.Len(), b.over
			return !over
		})
		if err == nil && over {
			err = ErrTooLarge
		}
		if err != nil {
			return nil, err
		}
		edits = append(edits, own...)
		slices.SortFunc(edits, func(a, b Edit) int { return cmp.Compare(a.Start, b.Start) })
	}
	return slices.DeleteFunc(edits, func(e Edit) bool { return e.Text == string(tree.Text[e.Start:e.End]) }), nil
}

// ErrTooLarge reports a rewritten text above the limit.
var ErrTooLarge = errors.New("it would become too large")

// builder is a strings.Builder with a limit in bytes.
type builder struct {
	strings.Builder
	limit int
	over  bool // text was dropped at the limit
}

func (b *builder) write(text string) {
	if b.over = b.over || b.Len()+len(text) > b.limit; !b.over {
		b.WriteString(text)
	}
}

// overlaps reports whether one of the edits, which are sorted, touches the bytes from start up to end.
func overlaps(edits []Edit, start, end int) bool {
	i, _ := slices.BinarySearchFunc(edits, start, func(e Edit, at int) int { return cmp.Compare(e.End, at+1) })
	return i < len(edits) && edits[i].Start < end
}

// Apply returns the text with the edits applied. The edits are sorted.
func Apply(text []byte, edits []Edit) []byte {
	var b bytes.Buffer
	at := 0
	for _, e := range edits {
		b.Write(text[at:e.Start])
		b.WriteString(e.Text)
		at = e.End
	}
	b.Write(text[at:])
	return b.Bytes()
}

// replace writes the replacement of a match. The lines of the template get the indentation of the line where the match
// begins. The lines of a capture keep their indentation relative to its first line.
func (r *Rule) replace(b *builder, tree *syntax.Tree, style style, m Match) {
	style.step = r.step
	outer := indentAt(tree.Text, int(tree.Nodes[m.Node].Start))
	for _, p := range r.parts {
		if b.over {
			return
		}
		if p.slot < 0 {
			style.template(b, p.text, outer)
			continue
		}
		if c := m.Captures[p.slot]; c.First >= 0 && c.Count > 0 {
			capture(b, tree, c, outer+style.own(p.indent))
		}
	}
}

// capture writes the value of a variable, with the indentation of its lines replaced.
func capture(b *builder, tree *syntax.Tree, c Capture, indent string) {
	start, end := tree.Span(c.First, c.Count)
	before := indentAt(tree.Text, start)
	text := string(tree.Text[start:end])
	if before == indent || !strings.Contains(text, "\n") {
		b.write(text)
		return
	}
	fixed := literalLines(tree, c, end)
	at := start
	for line := range strings.SplitAfterSeq(text, "\n") {
		rest, moved := strings.CutPrefix(line, before)
		switch {
		// Text within a string is not moved, nor are empty lines and lines that begin further left.
		case at == start, fixed[at], !moved, strings.TrimRight(line, "\r\n") == "":
			b.write(line)
		default:
			b.write(indent + rest)
		}
		at += len(line)
	}
}

// literalLines returns the beginnings of lines within a string, for a variable's value that ends at
// end.
func literalLines(tree *syntax.Tree, c Capture, end int) map[int]bool {
	fixed := map[int]bool{}
	last := c.First
	for range c.Count {
		last = int(tree.Nodes[last].Next)
	}
	for i := c.First; i < last; i++ {
		n := &tree.Nodes[i]
		if int(n.Next) > i+1 || !literal(tree.Language.Kind(n.Symbol)) {
			continue
		}
		from, to := int(n.Start), min(int(n.End), end)
		for at := from; at < to; at++ {
			if tree.Text[at] == '\n' {
				fixed[at+1] = true
			}
		}
	}
	return fixed
}

// literal reports whether white space in a leaf of this kind is significant.
func literal(kind string) bool {
	for _, part := range []string{"string", "heredoc", "raw", "template_chars", "char", "scalar", "fragment"} {
		if strings.Contains(kind, part) {
			return true
		}
	}
	return false
}

// lineIndent returns the white space the last line of a text begins with.
func lineIndent(text string) string {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// indentAt returns the white space at the beginning of an offset's line, up to the offset. For an offset far into a
// line it returns "": in a file of one long line every match would search back to the start.
func indentAt(text []byte, offset int) string {
	const far = 4 << 10
	offset = min(offset, len(text))
	from := max(0, offset-far)
	begin := bytes.LastIndexByte(text[from:offset], '\n') + 1
	if begin == 0 && from > 0 {
		return ""
	}
	line := text[from+begin : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// style is the layout of a file.
type style struct {
	// tabs means indentation by tabs; otherwise unit is one step of the indentation.
	tabs bool
	unit string
	// returns means lines that end in a carriage return and a line feed.
	returns bool
	// step is one step of the template's indentation.
	step string
}

// styleOf finds the indentation and the line ends of a file.
func styleOf(tree *syntax.Tree) style {
	const look = 64 << 10
	s := style{unit: "  "}
	tabs, spaces, returns, lines, least := 0, 0, 0, 0, 9
	for line := range bytes.Lines(tree.Text[:min(look, len(tree.Text))]) {
		lines++
		if bytes.HasSuffix(line, []byte("\r\n")) {
			returns++
		}
		switch n := len(line) - len(bytes.TrimLeft(line, " ")); {
		case line[0] == '\t':
			tabs++
		case n > 1 && n < len(line) && line[n] != '*':
			spaces++
			least = min(least, n)
		}
	}
	s.tabs = tabs > spaces
	s.returns = 2*returns > lines
	if least < 9 {
		s.unit = strings.Repeat(" ", least)
	}
	return s
}

// template writes a piece of the template in the file's style; lines after the first get the indentation outer.
func (s style) template(b *builder, text, outer string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i == 0 {
			b.write(line)
			continue
		}
		if s.returns && !strings.HasSuffix(b.String(), "\r") {
			b.write("\r")
		}
		b.write("\n")
		white := lineIndent(line)
		if rest := line[len(white):]; strings.TrimRight(rest, "\r") == "" && i < len(lines)-1 {
			b.write(rest) // an empty line
		} else {
			b.write(outer + s.own(white) + rest)
		}
	}
}

// own turns the indentation of a template's line into the file's style: steps of spaces become tabs in a file with
// tabs, and tabs become steps of spaces in a file with spaces.
func (s style) own(white string) string {
	if s.tabs {
		n := strings.Count(white, " ")
		step := max(len(s.step), 1)
		if s.step == "" || n == 0 {
			return white
		}
		return strings.Repeat("\t", strings.Count(white, "\t")+n/step) + strings.Repeat(" ", n%step)
	}
	return strings.ReplaceAll(white, "\t", s.unit)
}

// stepOf returns the least indentation by spaces of a template's lines.
func stepOf(replacement string) string {
	least := ""
	for i, line := range strings.Split(replacement, "\n") {
		white := lineIndent(line)
		if i > 0 && white != "" && strings.Trim(white, " ") == "" && (least == "" || len(white) < len(least)) {
			least = white
		}
	}
	return least
}

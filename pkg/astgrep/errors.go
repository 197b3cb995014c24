package astgrep

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/syntax"
)

// PatternError gives the reason why a pattern cannot be used, and the form of a complete one.
type PatternError struct {
	Pattern string
	// Problem completes "The pattern ...".
	Problem string
	// Advice is a sentence with a better pattern, or empty.
	Advice string
}

func (e *PatternError) Error() string {
	text := fmt.Sprintf("The pattern %q %s.", clip.MarkedRunes(e.Pattern, maxShown, "…"), e.Problem)
	if e.Advice != "" {
		text += " " + e.Advice
	}
	return text
}

// maxShown is the longest part of a pattern in an error, in characters.
const maxShown = 200

// several refuses a pattern of more than one node.
func (c *compiler) several() error {
	var kinds []string
	for _, i := range c.tree.Children(0) {
		if n := &c.tree.Nodes[i]; n.Symbol == syntax.ErrorSymbol {
			return c.broken(i)
		} else if !n.Is(syntax.Missing) {
			kinds = append(kinds, c.tree.Language.Kind(n.Symbol))
		}
		if len(kinds) == 5 {
			break
		}
	}
	return &PatternError{
		Pattern: c.source, Problem: "is more than one node: " + strings.Join(kinds, ", "),
		Advice: "A pattern is one expression, statement or declaration; put braces around several statements, or search " +
			"for one of them.",
	}
}

// broken refuses a pattern that does not parse.
func (c *compiler) broken(i int) error {
	where, behind := c.place(firstUnread(c.tree, i))
	problem := fmt.Sprintf(
		"is not complete %s code: something is missing or out of place at %s",
		c.tree.Language.Name,
		where,
	)
	if behind != "" {
		problem += fmt.Sprintf(", behind %q", behind)
	}
	return &PatternError{Pattern: c.source, Problem: problem, Advice: advice(c.tree.Language)}
}

// missing refuses a pattern that lacks a token, unless the token is optional at the end of a
// statement.
func (c *compiler) missing(i int) error {
	n := &c.tree.Nodes[i]
	kind := c.tree.Language.Kind(n.Symbol)
	if !n.Is(syntax.Named) && (kind == ";" || strings.TrimSpace(kind) == "" || strings.HasPrefix(kind, "_")) {
		return nil
	}
	where, behind := c.place(n.Start)
	problem := fmt.Sprintf("is not complete %s code: %q is missing at %s", c.tree.Language.Name, kind, where)
	if behind != "" {
		problem += fmt.Sprintf(", behind %q", behind)
	}
	return &PatternError{Pattern: c.source, Problem: problem, Advice: advice(c.tree.Language)}
}

// firstUnread returns the end of the first node of an error, which is nearer to the mistake than the error's start.
func firstUnread(tree *syntax.Tree, i int) uint32 {
	children := tree.Children(i)
	if len(children) == 0 {
		return tree.Nodes[i].Start
	}
	return tree.Nodes[children[len(children)-1]].End
}

// place returns the line and column of an offset into the prepared pattern, counted in the caller's text, and the last
// word before it.
func (c *compiler) place(offset uint32) (where, behind string) {
	before := string(c.tree.Text[:min(int(offset), len(c.tree.Text))])
	before = strings.NewReplacer(string(c.tree.Language.Sigil), "$", quoted, "$", member, "$").Replace(before)
	line := strings.Count(before, "\n") + 1
	last := before[strings.LastIndexByte(before, '\n')+1:]
	where = fmt.Sprintf("line %d, column %d", line, len([]rune(last))+1)
	words := bytes.FieldsFunc([]byte(last), unicode.IsSpace)
	if len(words) > 0 {
		behind = string(words[len(words)-1])
	}
	return where, behind
}

// advice describes a complete pattern of a language.
func advice(lang *syntax.Language) string {
	example := examples[lang.Name]
	if example == "" {
		example = "f($A, $$$REST)"
	}
	return "A pattern is one whole expression, statement or declaration, such as " + example + "."
}

// examples are complete patterns, for languages without common calls.
var examples = map[string]string{
	"bash": "echo $A", "c": "f($A, $$$REST);", "cpp": "f($A, $$$REST);", "css": ".name { color: $C; $$$ }",
	"hcl":  "resource \"$T\" \"$N\" { $$$ }",
	"html": "<p class=\"$C\">$$$</p>", "java": "$O.f($A);", "json": "{\"name\": $V, $$$}", "php": "f($A, $$$REST);",
	"yaml": "name: $V",
}

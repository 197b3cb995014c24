package search

import (
	"bytes"
	"errors"
	"fmt"
	"regexp/syntax"

	"github.com/grafana/regexp"
)

// Pattern is a compiled expression. It is immutable and safe for concurrent use.
type Pattern struct {
	expression *regexp.Regexp
	needs      literals // nothing if the expression can match without any of them
	exact      bool     // the expression is nothing but the literals
	run        run      // looked for where there are no literals
}

// Compile reads an expression in RE2 syntax. The error is one clause fit to be shown.
func Compile(text string) (*Pattern, error) {
	// Without OneLine, ^ and $ are at each line; without ClassNL, [^x] matches no line break.
	tree, err := syntax.Parse(text, syntax.Perl&^(syntax.OneLine|syntax.ClassNL))
	if err != nil {
		return nil, explain(err)
	}
	tree = withinLine(tree)
	expression, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, explain(err)
	}
	p := &Pattern{expression: expression}
	if r := longRun(tree); r.rare() > 0 {
		p.run = r
	}
	p.needs = required(tree.Simplify())
	if p.run.n >= longEnough && p.needs.weak() {
		p.needs = literals{}
	}
	p.exact = p.needs.exact && !p.needs.fold
	return p, nil
}

// longEnough is from how many bytes on a run is rarer than a single character such as "_".
const longEnough = 4

func explain(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return err
	}
	if foreign.MatchString(e.Expr) {
		return fmt.Errorf("%s: `%s`; look-around and back references are not part of RE2", e.Code, e.Expr)
	}
	return fmt.Errorf("%s: `%s`", e.Code, e.Expr)
}

// foreign is what other engines know and RE2 does not.
var foreign = regexp.MustCompile(`^(\(\?(<?[=!]|>)|\\[1-9k])`)

// withinLine changes an expression so that it matches the same inside a line and nothing across lines: \A and \z are the
// ends of a line, and nothing matches a line break.
func withinLine(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op, re.Flags = syntax.OpEndLine, re.Flags&^syntax.WasDollar
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r == '\n' {
				return &syntax.Regexp{Op: syntax.OpNoMatch}
			}
		}
	case syntax.OpCharClass:
		if re.Rune = withoutBreak(re.Rune); len(re.Rune) == 0 {
			return &syntax.Regexp{Op: syntax.OpNoMatch}
		}
	}
	for i, sub := range re.Sub {
		re.Sub[i] = withinLine(sub)
	}
	return re
}

// withoutBreak takes \n out of the ranges of a class.
func withoutBreak(ranges []rune) []rune {
	kept := make([]rune, 0, len(ranges)+2)
	for i := 0; i+1 < len(ranges); i += 2 {
		low, high := ranges[i], ranges[i+1]
		if low > '\n' || high < '\n' {
			kept = append(kept, low, high)
			continue
		}
		if low < '\n' {
			kept = append(kept, low, '\n'-1)
		}
		if high > '\n' {
			kept = append(kept, '\n'+1, high)
		}
	}
	return kept
}

// Match reports whether one line, without its \n, matches.
func (p *Pattern) Match(line []byte) bool {
	if p.expression.Match(line) {
		return true
	}
	trimmed := bytes.TrimSuffix(line, []byte{'\r'})
	return len(trimmed) < len(line) && p.expression.Match(trimmed)
}

// Where returns where in a line that matches the first match is, in bytes.
func (p *Pattern) Where(line []byte) (start, end int) {
	at := p.expression.FindIndex(line)
	if at == nil {
		return 0, 0
	}
	return at[0], at[1]
}

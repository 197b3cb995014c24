package search

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
	"unicode"
)

// Pattern is a compiled expression. It is safe for concurrent use.
type Pattern struct {
	needs    literals  // empty if the expression can match without any literal
	finders  []finder  // finders of the literals
	run      run       // searched if there are no literals
	automata sync.Pool // values are *automaton, each used by one scan at a time
	words    string    // the expression of [Pattern.Words]; empty unless the pattern is one literal word
}

// maxProgram is the maximum number of instructions of a compiled expression. Nested repetitions can exceed any limit,
// and the cost of a character may grow with them.
const maxProgram = 20_000

// Compile compiles an expression in RE2 syntax. The error is one clause for the user.
func Compile(text string) (*Pattern, error) {
	// Without OneLine, ^ and $ match at each line; without ClassNL, [^x] does not match a line break.
	tree, err := syntax.Parse(text, syntax.Perl&^(syntax.OneLine|syntax.ClassNL))
	if err != nil {
		return nil, explain(err)
	}
	tree = withinLine(tree)
	p := &Pattern{words: wholeWord(tree)}
	if r := longRun(tree); r.rare() > 0 {
		p.run = r
	}
	p.needs = required(tree.Simplify())
	if p.run.n >= longEnough && p.needs.weak() {
		p.needs = literals{}
	}
	for _, text := range p.needs.any {
		p.finders = append(p.finders, newFinder(text, p.needs.fold))
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxProgram {
		return nil, errTooLarge
	}
	classes, err := newClasses(prog)
	if err != nil {
		return nil, err
	}
	p.automata.New = func() any { return newAutomaton(prog, classes) }
	return p, nil
}

// Words returns the pattern that finds p only as a whole word, with a blank, a bracket, a quote or one of ,;:.=<> on
// either side. ok is false unless p is one literal word of letters, digits and underscores. So only a guess of a whole
// word finds it, and words that other signs join, such as a password's, are found neither alone nor together.
func (p *Pattern) Words() (words *Pattern, ok bool) {
	if p.words == "" {
		return nil, false
	}
	words, err := Compile(p.words)
	return words, err == nil
}

func wholeWord(tree *syntax.Regexp) string {
	if tree.Op != syntax.OpLiteral || slices.ContainsFunc(tree.Rune, func(r rune) bool {
		return r != '_' && !unicode.In(r, unicode.L, unicode.M, unicode.N)
	}) {
		return ""
	}
	const other = "[\\s()\\[\\]{}\"'`,;:.=<>]"
	text := string(tree.Rune)
	if tree.Flags&syntax.FoldCase != 0 {
		text = "(?i:" + text + ")"
	}
	return "(?:^|" + other + ")" + text + "(?:" + other + "|$)"
}

// longEnough is the length from which a run is rarer than a single character such as "_".
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

// foreign matches syntax of other engines that RE2 does not support.
var foreign = regexp.MustCompile(`^(\(\?(<?[=!]|>)|\\[1-9k])`)

// withinLine changes an expression so that it has the same matches inside a line and none across lines: \A and \z
// become the ends of a line, and no part matches a line break.
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

// withoutBreak removes \n from the ranges of a class.
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

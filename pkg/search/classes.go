package search

import (
	"errors"
	"math"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// classes divides all characters into classes that an expression cannot distinguish, so that an automaton has one
// column for each class instead of each character.
type classes struct {
	// byte is the class of each ASCII byte, and wide for all bytes of longer characters.
	byte [256]uint16
	// from are the first characters of intervals in order; class holds their classes.
	from  []rune
	class []uint16
	// example is one character of each class.
	example []rune
	// lineEnd is the class of \n, which also represents the end of the text. wide is not a class: it means that the
	// character must be decoded first.
	lineEnd, wide uint16
}

// maxTests limits the work of finding the classes. Real expressions have a dozen tests, whose results change at some
// hundred characters.
const maxTests = 10_000_000

var errTooLarge = errors.New("it is too large: its repetitions or classes are too many")

// newClasses returns the classes of a program.
func newClasses(prog *syntax.Prog) (*classes, error) {
	tests := runeTests(prog)
	cuts := []rune{0, '\n', '\n' + 1, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, utf8.RuneSelf}
	for _, t := range tests {
		cuts = append(cuts, t.cuts()...)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if len(cuts)*len(tests) > maxTests || len(cuts) >= math.MaxUint16 {
		return nil, errTooLarge
	}
	c := &classes{from: cuts, class: make([]uint16, len(cuts))}
	known := map[string]uint16{}
	for i, r := range cuts {
		signature := make([]byte, 0, len(tests)+2)
		signature = append(signature, bit(r == '\n'), bit(syntax.IsWordChar(r)))
		for _, t := range tests {
			signature = append(signature, bit(t.inst.MatchRune(r)))
		}
		k, ok := known[string(signature)]
		if !ok {
			k = uint16(len(known))
			known[string(signature)] = k
			c.example = append(c.example, r)
		}
		c.class[i] = k
	}
	c.wide = uint16(len(c.example))
	for b := range c.byte {
		if c.byte[b] = c.wide; b < utf8.RuneSelf {
			c.byte[b] = c.of(rune(b))
		}
	}
	c.lineEnd = c.byte['\n']
	return c, nil
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// of returns the class of a character.
func (c *classes) of(r rune) uint16 {
	i, found := slices.BinarySearch(c.from, r)
	if !found {
		i--
	}
	return c.class[i]
}

// runeTest is an instruction that tests a character.
type runeTest struct{ inst *syntax.Inst }

// runeTests returns one instruction of each kind of test in a program. Copies made for repetitions share their ranges.
func runeTests(prog *syntax.Prog) []runeTest {
	type identity struct {
		first *rune
		n     int
		arg   uint32
		op    syntax.InstOp
	}
	var tests []runeTest
	seen := map[identity]bool{}
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		id := identity{n: len(inst.Rune), arg: inst.Arg, op: inst.Op}
		switch inst.Op {
		case syntax.InstRune, syntax.InstRune1:
			id.first = first(inst.Rune)
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		default:
			continue
		}
		if !seen[id] {
			seen[id] = true
			tests = append(tests, runeTest{inst})
		}
	}
	return tests
}

func first(runes []rune) *rune {
	if len(runes) == 0 {
		return nil
	}
	return &runes[0]
}

// cuts returns the characters at which the result of a test may change.
func (t runeTest) cuts() []rune {
	runes := t.inst.Rune
	if len(runes) == 1 {
		cuts := []rune{runes[0], runes[0] + 1}
		if syntax.Flags(t.inst.Arg)&syntax.FoldCase != 0 {
			for r := unicode.SimpleFold(runes[0]); r != runes[0]; r = unicode.SimpleFold(r) {
				cuts = append(cuts, r, r+1)
			}
		}
		return cuts
	}
	var cuts []rune
	for i := 0; i+1 < len(runes); i += 2 {
		cuts = append(cuts, runes[i], runes[i+1]+1)
	}
	return cuts
}

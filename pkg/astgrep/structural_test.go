//go:build cgo

package astgrep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/syntax"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parser(t testing.TB) *syntax.Parser {
	t.Helper()
	p, err := syntax.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// find returns the matches of a pattern in a source: the text and the variables of each match. The list is empty for a
// refused pattern.
func find(t testing.TB, p *syntax.Parser, lang, pattern, source string) []string {
	t.Helper()
	compiled, err := astgrep.Compile(t.Context(), p, syntax.Lookup(lang), pattern)
	if err != nil {
		t.Fatalf("%s %q: %v", lang, pattern, err)
	}
	if !compiled.Possible([]byte(source)) {
		return nil
	}
	tree, err := p.Parse(t.Context(), syntax.Lookup(lang), []byte(source), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	err = compiled.Find(t.Context(), &tree, true, func(m astgrep.Match) bool {
		s := string(tree.Source(m.Node))
		for i, name := range compiled.Names() {
			if c := m.Captures[i]; c.First >= 0 {
				from, to := tree.Span(c.First, c.Count)
				s += fmt.Sprintf(" %s=%s", name, source[from:to])
			}
		}
		list = append(list, s)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The matches are those of ast-grep 0.51; each line was compared with its command (T-SEARCH-AST-04, T-SEARCH-AST-09).
func TestSemanticsOfAstGrep(t *testing.T) {
	t.Parallel()
	p := parser(t)
	for _, c := range []struct {
		pattern, source string
		want            []string
	}{
		{"foo($A,$B,$C)", "foo(a, /* x */ b, c)", []string{"foo(a, /* x */ b, c) A=a B=b C=c"}},
		{"foo($A,$B,$C)", "foo(/* x */ a, b, c, /* y */)", []string{"foo(/* x */ a, b, c, /* y */) A=a B=b C=c"}},
		{"foo(a,b,c)", "foo(a, // n\n b, c,)", []string{"foo(a, // n\n b, c,)"}},
		{"foo(a,b,)", "foo(a,b)", nil},
		{"foo(bar(a), c)", "foo(/* x */ bar(a), c)", nil},
		{"foo(/* x */ a)", "foo(/* x */ a); foo(a)", []string{"foo(/* x */ a)"}},
		{"bar($A)", "bar(/* only */)", nil},
		{"bar($$$A)", "bar(/* only */)", []string{"bar(/* only */) A=/* only */"}},
		{"bar($$$A)", "bar()", []string{"bar() A="}},
		{"foo($$$A, c)", "foo(a, b, c)", []string{"foo(a, b, c) A=a, b"}},
		{"foo($$$A, $LAST)", "foo(a, b)", nil},
		{"foo($$$A, $LAST)", "foo(a)", []string{"foo(a) A= LAST=a"}},
		{"foo($$$A, $$$A)", "foo(a, a); foo(a)", []string{"foo(a) A="}},
		{"foo($$$, b, $$$)", "foo(1, b, 1, b)", []string{"foo(1, b, 1, b)"}},
		{"foo($A, $A)", "foo(a, a); foo(a, b); foo((a), a)", []string{"foo(a, a) A=a"}},
		{"foo($_, $_)", "foo(a, b)", []string{"foo(a, b)"}},
		{"foo($_A, $_A)", "foo(a, b)", []string{"foo(a, b)"}},
		{"f($A)", "f(f(1))", []string{"f(f(1)) A=f(1)", "f(1) A=1"}},
		{"return $A", "return; return 1;", []string{"return 1; A=1"}},
		{"return $$A", "return; return 1;", []string{"return; A=;", "return 1; A=1"}},
		{"return", "return 1;", []string{"return"}},
		{"f($a)", "f($a); f(b)", []string{"f($a)"}},
		{"f($1)", "f(1)", nil},
		{`foo("$A")`, `foo("x")`, []string{`foo("x") A=x`}},
		{"if ($X) { y() }", "if (x) { /* a */ y() } if (x) { y() /* a */ }", []string{"if (x) { y() /* a */ } X=x"}},
		{"class A { b() {}}", "class A { get b() {}}", []string{"class A { get b() {}}"}},
		{"class A { get b() {}}", "class A { b() {}}", nil},
		{"($P) => $F($P)", "(x) => bar(x)", []string{"(x) => bar(x) P=x F=bar"}},
		{"import { $$$A } from 'b'", "import { c, d } from 'b'", []string{"import { c, d } from 'b' A=c, d"}},
		{"import $A from $B", "import x from 'b'", []string{"import x from 'b' A=x B='b'"}},
		{
			"function _() {\n  $$$A\n  let $P = g()\n  let $Q = h()\n  $$$B\n}",
			"function _() { let a = 0; let p = g(); let q = h(); let b = 1; }",
			[]string{"function _() { let a = 0; let p = g(); let q = h(); let b = 1; } A=let a = 0; P=p Q=q B=let b = 1;"},
		},
	} {
		if got := find(t, p, "typescript", c.pattern, c.source); !slices.Equal(got, c.want) {
			t.Errorf("%q in %q\n got %q\nwant %q", c.pattern, c.source, got, c.want)
		}
	}
}

// Where the grammar allows no name, variables are matched by another spelling.
func TestVariablesWhereNamesHaveNoPlace(t *testing.T) {
	t.Parallel()
	p := parser(t)
	for _, c := range [][4]string{
		{"json", `{"a": $V, $$$}`, `{"a": [1], "b": 2}`, `{"a": [1], "b": 2} V=[1]`},
		{"json", `{$$$, $K: 2}`, `{"a": 1, "b": 2}`, `{"a": 1, "b": 2} K="b"`},
		{"json", `"$A"`, `["x"]`, `"x" A=x`},
		{
			"hcl", `resource "a" $N { $$$B }`, "resource \"a\" \"b\" {\n  c = 1\n}\n",
			"resource \"a\" \"b\" {\n  c = 1\n} N=\"b\" B=c = 1",
		},
		{"css", ".a { color: $C; $$$ }", ".a { color: red; margin: 0 }", ".a { color: red; margin: 0 } C=red"},
		{"ruby", "class $C < $D\n  $$$\nend", "class A < B\n  x\nend\n", "class A < B\n  x\nend C=A D=B"},
		{"php", "$A . 'x'", "<?php echo __DIR__ . 'x';", "__DIR__ . 'x' A=__DIR__"},
	} {
		if got := find(t, p, c[0], c[1], c[2]); !slices.Equal(got, []string{c[3]}) {
			t.Errorf("%s %q: %q", c[0], c[1], got)
		}
	}
}

// samples are short sources in several languages, with tabs and spaces, strings of several lines, and an empty text.
var samples = map[string]string{
	"go": "package a\n\nfunc f(x int) error {\n\tif x > 1 {\n\t\treturn g(`a\nb`, func() {\n\t\t\th(x, " +
		"1)\n\n\t\t})\n\t}\n\treturn nil\n}\n",
	"typescript": "export const f = async (x: number) => {\n  await g(x, `a\n ${b(1)}\n`);\n  if (x) {\n    return " +
		"h(\n      x,\n      {a: 1, b},\n    );\n  }\n};\n",
	"python": "def f(x):\n    \"\"\"A\n    b\n  c.\"\"\"\n    return g(\n        x,\n        [a for a in b],\n    )\n",
	"json":   "{\"a\": [1, {\"b\": null}], \"c\": \"d\"}\n",
	"css":    ".a > b { color: red; margin: 0 1px }\n@media x { c { d: e } }\n",
	"rust":   "fn f(x: u8) -> u8 {\n    let y = g(x, \"a\\\n        b\");\n    match y { 1 => 2, _ => h!(3) }\n}\n",
	"yaml":   "a:\n  - b: 1\n    c: |\n      text\n        more\n",
}

// Rewriting a piece of a source to itself changes no byte, with the piece as the pattern or with a variable in its
// place.
func TestRewritingByIdentityIsIdentity(t *testing.T) {
	t.Parallel()
	p := parser(t)
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"go", "typescript", "python", "json", "css", "rust", "yaml"}).Draw(rt, "language")
		lang, source := syntax.Lookup(name), []byte(samples[name])
		tree, err := p.Parse(t.Context(), lang, source, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		i := rapid.IntRange(1, len(tree.Nodes)-1).Draw(rt, "node")
		piece := string(tree.Source(i))
		from := []string{
			"$A", piece, strings.ReplaceAll(piece, "x", "$A"), strings.ReplaceAll(piece, "1", "$$$B"),
		}[rapid.IntRange(0, 3).Draw(rt, "pattern")]
		pattern, err := astgrep.Compile(t.Context(), p, lang, from)
		if err != nil {
			return // a piece may be no whole node
		}
		rule, err := astgrep.NewRule(pattern, from)
		if err != nil {
			return // text that resembles a variable
		}
		if from != "$A" && strings.Contains(from, "\n") {
			return // the lines of a template get a new indentation
		}
		if tree, err = p.Parse(t.Context(), lang, source, 1<<20); err != nil {
			rt.Fatal(err)
		}
		sameInParts(t, p, pattern, &tree)
		if tree, err = pattern.Parse(t.Context(), p, source, 1<<20); err != nil {
			rt.Fatal(err)
		}
		edits, err := astgrep.Rewrite(t.Context(), &tree, []*astgrep.Rule{rule}, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		for _, e := range edits {
			// White space and comments of the template may change; captures may not.
			if from == "$A" ||
				strings.Join(strings.Fields(e.Text), "") != strings.Join(strings.Fields(string(source[e.Start:e.End])), "") &&
					!strings.Contains(from, "$") {
				rt.Fatalf("%s: %q became %q", from, source[e.Start:e.End], e.Text)
			}
		}
	})
}

// Edits are sorted and do not overlap; applying them replaces each range by its text.
func TestRewritesNeverOverlap(t *testing.T) {
	t.Parallel()
	p := parser(t)
	lang := syntax.Lookup("typescript")
	source := []byte("f(f(1, g(2)), g(f(3)));\nf(4);\n")
	var rules []*astgrep.Rule
	for _, r := range [][2]string{{"g($A)", "G($A)"}, {"f($$$A)", "F($$$A)"}, {"$A", "x"}} {
		pattern, err := astgrep.Compile(t.Context(), p, lang, r[0])
		if err != nil {
			t.Fatal(err)
		}
		rule, err := astgrep.NewRule(pattern, r[1])
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	rapid.Check(t, func(rt *rapid.T) {
		tree, err := p.Parse(t.Context(), lang, source, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		chosen := rapid.Permutation(rules).Draw(rt, "rules")
		edits, err := astgrep.Rewrite(t.Context(), &tree, chosen[:rapid.IntRange(1, 3).Draw(rt, "number")], 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		at, want := 0, ""
		for _, e := range edits {
			if e.Start < at || e.End < e.Start {
				rt.Fatalf("edits %v", edits)
			}
			want += string(source[at:e.Start]) + e.Text
			at = e.End
		}
		if got := string(astgrep.Apply(source, edits)); got != want+string(source[at:]) {
			rt.Fatalf("applied %q", got)
		}
	})
}

// The context ends the matching of a pattern that is slow by design.
func TestMatchingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := parser(t)
	lang := syntax.Lookup("javascript")
	pattern, err := astgrep.Compile(t.Context(), p, lang, strings.Repeat("f($$$A, ", 40)+"$$$A"+strings.Repeat(")", 40))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := p.Parse(t.Context(), lang, []byte(strings.Repeat("f(1, 2, ", 300)+strings.Repeat(")", 300)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := pattern.Find(ctx, &tree, true, func(astgrep.Match) bool { return true }); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
}

// A pattern that occupies the parser for too long is refused well before the tool's own time limit.
func TestPatternThatTakesTooLong(t *testing.T) {
	t.Parallel()
	_, err := astgrep.Compile(t.Context(), parser(t), syntax.Lookup("swift"), `{"a": $V, $$$=`)
	var refused *astgrep.PatternError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "no reading of it was found in 2s") {
		t.Fatalf("%v", err)
	}
}

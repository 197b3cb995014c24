package astgrep_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/syntax"
)

// A dollar in a replacement is text unless a meta variable follows it.
func TestDollarsInReplacements(t *testing.T) {
	t.Parallel()
	p := parser(t)
	for _, c := range []struct{ language, pattern, source, replacement, want string }{
		{"javascript", "f($A)", "f(x)", `g("$5", $A)`, `g("$5", x)`},
		{"javascript", "f($A)", "f(x)", `g($lower, $, $$, $5a, $A)`, "g($lower, $, $$, $5a, x)"},
		{"javascript", "f($A)", "f(x)", "g($Total, $A)", "g($Total, x)"},
		{"javascript", "f($A)", "f(x)", "g(`${a}$A$`)", "g(`${a}x$`)"},
		{"go", "f($A)", "package a\n\nvar _ = f(x)\n", `g("$5 $lower $Total $", $A)`, `g("$5 $lower $Total $", x)`},
		{"python", "f($A)", "f(x)\n", `g("$5", $A)`, `g("$5", x)`},
		{"bash", "f $A", "f x\n", `g "$5" $lower $? $# $A "$ARGS"`, `g "$5" $lower $? $# x "$ARGS"`},
		{"php", "f($A)", "<?php f($x);", `g($lower, "$5", $this, $Total, $A)`, `g($lower, "$5", $this, $Total, $x)`},
	} {
		lang := syntax.Lookup(c.language)
		pattern, err := astgrep.Compile(t.Context(), p, lang, c.pattern)
		if err != nil {
			t.Fatalf("%s %q: %v", c.language, c.pattern, err)
		}
		rule, err := astgrep.NewRule(pattern, c.replacement)
		if err != nil {
			t.Errorf("%s %q: %v", c.language, c.replacement, err)
			continue
		}
		tree, err := p.Parse(t.Context(), lang, []byte(c.source), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		edits, err := astgrep.Rewrite(t.Context(), &tree, []*astgrep.Rule{rule}, 1<<20)
		if err != nil || len(edits) != 1 || edits[0].Text != c.want {
			t.Errorf("%s %q: got %v, %v, want %q", c.language, c.replacement, edits, err, c.want)
		}
	}
}

// A replacement with an uncaptured meta variable is refused.
func TestUncapturedVariables(t *testing.T) {
	t.Parallel()
	p := parser(t)
	pattern, err := astgrep.Compile(t.Context(), p, syntax.Lookup("javascript"), "f($A)")
	if err != nil {
		t.Fatal(err)
	}
	for _, replacement := range []string{"g($B)", "g($$$A)", "g($A, $B_2)", "g($_)", "$A.$B"} {
		var refused *astgrep.PatternError
		if _, err := astgrep.NewRule(pattern, replacement); !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), "does not capture") {
			t.Errorf("%q: got %v, want a refusal", replacement, err)
		}
	}
}

// A dollar in a pattern is text unless a meta variable follows it, in languages that allow it in code.
func TestDollarsInPatterns(t *testing.T) {
	t.Parallel()
	p := parser(t)
	for _, c := range []struct {
		language, pattern, source string
		want                      []string
	}{
		{"javascript", "f($lower, $A)", "f($lower, 1); f(x, 1)", []string{"f($lower, 1) A=1"}},
		{"javascript", "$($A)", "$(x); jQuery(x)", []string{"$(x) A=x"}},
		{"javascript", "f($Total)", "f($Total); f(x)", []string{"f($Total)"}},
		{"javascript", `f("$5", $A)`, `f("$5", x); f("$6", x)`, []string{`f("$5", x) A=x`}},
		{
			"go", `f("$5", "$lower", "$Total", "$", $A)`, "package a\n\nvar _ = f(\"$5\", \"$lower\", \"$Total\", \"$\", x)\n",
			[]string{`f("$5", "$lower", "$Total", "$", x) A=x`},
		},
		{
			"go", `f("costs $A", $A)`, "package a\n\nvar _, _ = f(\"costs $A\", x), f(\"costs µA\", x)\n",
			[]string{`f("costs $A", x) A=x`},
		},
		{"python", `f("$Total", $A)`, "f('$Total', 1)\nf(\"$Total\", 1)\n", []string{`f("$Total", 1) A=1`}},
		{"bash", "echo $lower $5 $A", "echo $lower $5 x\n", []string{"echo $lower $5 x A=x"}},
		{
			"php", "f($lower, $Total, $A);", "<?php f($lower, $Total, 1); f($x, $Total, 1);",
			[]string{"f($lower, $Total, 1); A=1"},
		},
	} {
		if got := find(t, p, c.language, c.pattern, c.source); !slices.Equal(got, c.want) {
			t.Errorf("%s %q in %q: got %q, want %q", c.language, c.pattern, c.source, got, c.want)
		}
	}
}

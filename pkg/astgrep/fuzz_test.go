//go:build cgo

package astgrep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/syntax"
)

// fuzzTime limits the time of one input. fuzzHeap limits the growth of the C heap over many inputs; a leak soon passes
// it.
const (
	fuzzTime = 5 * time.Second
	fuzzHeap = 512 << 20
)

// Compiling any pattern returns a pattern, or an error with a reason.
func FuzzPattern(f *testing.F) {
	for i, lang := range syntax.Languages() {
		for _, pattern := range []string{
			"f($A, $$$B)", "$$$", "console.log(", "{\"a\": $V, $$$}", "a { b: $C }", "\x00\xff", "<p $$$>$A</p>", lang.Name,
			"((((", "$A $B", "\"$A",
		} {
			f.Add(i, pattern)
		}
	}
	p := parser(f)
	f.Fuzz(func(t *testing.T, i int, pattern string) {
		lang := language(i)
		ctx, cancel := context.WithTimeout(t.Context(), fuzzTime)
		defer cancel()
		compiled, err := astgrep.Compile(ctx, p, lang, pattern)
		var refused *astgrep.PatternError
		switch {
		case ctx.Err() != nil:
			t.Fatalf("%s %q takes longer than %s", lang.Name, pattern, fuzzTime)
		case errors.As(err, &refused):
			if refused.Problem == "" {
				t.Fatalf("%s %q is refused without a reason", lang.Name, pattern)
			}
			return
		case errors.Is(err, syntax.ErrTooLarge):
			return
		case err != nil:
			t.Fatal(err)
		}
		if _, err := astgrep.NewRule(compiled, pattern); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if syntax.Heap() > fuzzHeap {
			t.Fatalf("the C heap holds %d bytes", syntax.Heap())
		}
	})
}

// Matching and rewriting end for any pattern and source. The edits lie within the text, in order.
func FuzzMatch(f *testing.F) {
	for i, lang := range syntax.Languages() {
		f.Add(i, "f($A, $$$B)", "f(1, 2, f(3))\n", "g($$$B, $A)")
		f.Add(i, "$A", samples[lang.Name], "$A")
		f.Add(i, "f($$$A, f($$$A))", "f(f(f(f(1,2),3),f()))", "$$$A")
		f.Add(i, "#define $A $B", "#define X 1\n#ifdef Z\n# define Y 2\n#endif\n", "$A")
		f.Add(i, "$A not in $B", "a not in b or (c  not\\\n in d)\n", "$A")
		f.Add(i, "%w(a $B)", "%w(a b)\n[%w[a b]]\n", "$B")
	}
	p := parser(f)
	f.Fuzz(func(t *testing.T, i int, text, source, replacement string) {
		lang := language(i)
		ctx, cancel := context.WithTimeout(t.Context(), fuzzTime)
		defer cancel()
		pattern, err := astgrep.Compile(ctx, p, lang, text)
		if err != nil {
			return
		}
		rule, err := astgrep.NewRule(pattern, replacement)
		if err != nil {
			return
		}
		tree, err := p.Parse(ctx, lang, []byte(source), 1<<20)
		if err == nil {
			checkTree(t, &tree)
			sameInParts(t, p, pattern, &tree)
			tree, err = p.Parse(ctx, lang, []byte(source), 1<<20) // the nodes are those of the last call
		}
		if err == nil {
			err = pattern.Find(ctx, &tree, true, func(m astgrep.Match) bool {
				for _, c := range m.Captures {
					if start, end := tree.Span(max(c.First, 0), c.Count); start > end || end > len(source) {
						t.Fatalf("a capture from %d to %d", start, end)
					}
				}
				return true
			})
		}
		var edits []astgrep.Edit
		if err == nil {
			edits, err = astgrep.Rewrite(ctx, &tree, []*astgrep.Rule{rule}, 1<<20)
		}
		if ctx.Err() != nil {
			t.Fatalf("%s %q over %q takes longer than %s", lang.Name, text, source, fuzzTime)
		}
		if err != nil && !errors.Is(err, syntax.ErrTooLarge) {
			t.Fatal(err)
		}
		at := 0
		for _, e := range edits {
			if e.Start < at || e.End < e.Start || e.End > len(source) {
				t.Fatalf("edits %v", edits)
			}
			at = e.End
		}
		astgrep.Apply([]byte(source), edits)
		if syntax.Heap() > fuzzHeap {
			t.Fatalf("the C heap holds %d bytes", syntax.Heap())
		}
	})
}

// sameInParts checks that a pattern has the same matches in a tree as in the part of it that Pattern.Parse makes.
func sameInParts(t *testing.T, p *syntax.Parser, pattern *astgrep.Pattern, tree *syntax.Tree) {
	t.Helper()
	whole := spans(t, pattern, tree)
	if !pattern.Possible(tree.Text) && len(whole) > 0 {
		t.Fatalf("%q is found in %q, where it is not possible", pattern.Variables(), tree.Text)
	}
	part, err := pattern.Parse(t.Context(), p, tree.Text, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, &part)
	if d := cmp.Diff(whole, spans(t, pattern, &part)); d != "" {
		t.Fatalf("%q in %q: %s", pattern.Variables(), tree.Text, d)
	}
}

// spans returns the ranges of the matches of a pattern, each followed by those of its variables.
func spans(t *testing.T, pattern *astgrep.Pattern, tree *syntax.Tree) (list [][2]int) {
	t.Helper()
	add := func(first, count int) {
		start, end := tree.Span(first, count)
		list = append(list, [2]int{start, end})
	}
	if err := pattern.Find(t.Context(), tree, true, func(m astgrep.Match) bool {
		add(m.Node, 1)
		for _, c := range m.Captures {
			add(max(c.First, 0), c.Count)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func language(i int) *syntax.Language {
	all := syntax.Languages()
	return all[uint(i)%uint(len(all))]
}

// checkTree checks that each subtree lies within its parent's.
func checkTree(t *testing.T, tree *syntax.Tree) {
	t.Helper()
	var ends []uint32
	for i := range tree.Nodes {
		for len(ends) > 0 && ends[len(ends)-1] == uint32(i) {
			ends = ends[:len(ends)-1]
		}
		n := &tree.Nodes[i]
		if n.Next <= uint32(i) || int(n.Next) > len(tree.Nodes) || len(ends) > 0 && n.Next > ends[len(ends)-1] {
			t.Fatalf("node %d of %d goes on to %d", i, len(tree.Nodes), n.Next)
		}
		ends = append(ends, n.Next)
	}
}

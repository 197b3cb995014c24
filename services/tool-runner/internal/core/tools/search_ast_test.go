//go:build cgo

package tools_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/syntax"
)

type astResult struct {
	Matches []struct {
		File          string
		Line, Column  int
		EndLine       int               `json:"end_line"`
		EndColumn     int               `json:"end_column"`
		ByteStart     int               `json:"byte_start"`
		ByteEnd       int               `json:"byte_end"`
		Content       *string           `json:"content"`
		MetaVariables map[string]string `json:"meta_variables"`
		ContextBefore []string          `json:"context_before"`
		ContextAfter  []string          `json:"context_after"`
		OutsideCage   bool              `json:"outside_cage"`
	}
	Count     int
	Truncated bool
	Hint      string
	Skipped   int `json:"files_skipped"`
}

// flat returns each match as file:line:content with its variables.
func (r astResult) flat() []string {
	var list []string
	for _, m := range r.Matches {
		s := fmt.Sprintf("%s:%d", m.File, m.Line)
		if m.Content != nil {
			s += ":" + *m.Content
		}
		for _, name := range slices.Sorted(maps.Keys(m.MetaVariables)) {
			s += " " + name + "=" + m.MetaVariables[name]
		}
		if m.OutsideCage {
			s += " outside"
		}
		list = append(list, s)
	}
	return list
}

func codeProject(t testing.TB, change ...func(*bench)) *bench {
	b := newBench(t, change...)
	b.write("src/main.ts", "const server = serve({\n  x: 1,\n});\n  console.log(\"server started\")\n});\nf(1,2); f(3);\n")
	b.write("src/main.test.ts", "console.log('test')\n")
	b.write("src/view.tsx", "console.log('tsx')\n")
	b.write("src/old.js", "console.log('js')\n")
	b.write("src/deep/d.mts", "/* é😀 */ console.log(\n  a,\n)\n")
	b.write(".gitignore", "gen/\n")
	b.write("gen/g.ts", "console.log('generated')\n")
	return b
}

// A pattern finds code of its form in the files of its language that git does not ignore. It reports the values of its
// variables and exact positions (T-SEARCH-AST-01, -03, -04, -05, -07, TN-SEARCH-5).
func TestSearchAst(t *testing.T) {
	t.Parallel()
	b := codeProject(t)
	search := func(p in) astResult {
		t.Helper()
		var r astResult
		b.ok("search.ast", p, &r)
		return r
	}
	got := search(in{"pattern": "console.log($MSG)", "lang": "typescript"})
	want := []string{
		"./src/deep/d.mts:1:console.log(\n  a,\n) MSG=a", "./src/main.test.ts:1:console.log('test') MSG='test'",
		"./src/main.ts:4:console.log(\"server started\") MSG=\"server started\"",
	}
	if d := cmp.Diff(want, got.flat()); d != "" || got.Count != 3 || got.Truncated {
		t.Error(d, got.Count)
	}
	if m := got.Matches[0]; m.Column != 10 || m.EndLine != 3 || m.EndColumn != 1 || m.ByteStart != 13 ||
		m.ByteEnd != 13+len(*m.Content) {
		t.Errorf("places %+v", m)
	}
	if r := search(in{"pattern": "f($A)", "lang": "typescript"}); len(r.Matches) != 1 ||
		r.Matches[0].MetaVariables["A"] != "3" {
		t.Errorf("f($A): %v", r.flat())
	}
	if r := search(in{"pattern": "f($$$ARGS)", "lang": "typescript"}); len(r.Matches) != 2 ||
		r.Matches[0].MetaVariables["ARGS"] != "1,2" {
		t.Errorf("f($$$): %v", r.flat())
	}
	r := search(in{
		"pattern": "console.log($MSG)", "lang": "typescript", "paths": []string{"src/main.ts", "src", "./src"}, "context": 2,
	})
	for _, m := range r.Matches {
		if m.File == "./src/main.ts" && !slices.Equal(m.ContextBefore, []string{"  x: 1,", "});"}) ||
			len(m.ContextAfter) > 2 {
			t.Errorf("context %q %q", m.ContextBefore, m.ContextAfter)
		}
	}
	if r.Count != 3 {
		t.Errorf("found %d in folders that lie in each other", r.Count)
	}
	for _, globs := range [][]string{{"*.ts", "!*.test.ts"}, {"!*.test.ts", "!*.mts"}, {"main.ts"}, {"**/main.ts"}} {
		if r := search(in{"pattern": "console.log($_)", "lang": "typescript", "globs": globs}); len(r.Matches) != 1 ||
			r.Matches[0].File != "./src/main.ts" {
			t.Errorf("%v: %v", globs, r.flat())
		}
	}
	if r := search(in{"pattern": "nothing($X)", "lang": "typescript"}); r.Count != 0 ||
		!strings.Contains(r.Hint, "call_expression") {
		t.Errorf("no match: %+v", r)
	}
	var alias astResult
	if b.ok("search.ast_grep", in{"pattern": "console.log($MSG)", "lang": "typescript"}, &alias); alias.Count != 3 {
		t.Error("the old name finds other things")
	}
}

// A pattern finds code in each language (T-SEARCH-AST-02).
func TestSearchAstInEveryLanguage(t *testing.T) {
	t.Parallel()
	cases := map[string][3]string{ // file, source, pattern
		"bash": {"a.sh", "echo hello\n", "echo $A"}, "c": {"a.c", "int main(void) { return f(1); }\n", "return $A;"},
		"cpp":        {"a.cc", "int main() { std::move(x); }\n", "std::move($A);"},
		"csharp":     {"a.cs", "class A { void F() { g.H(1); } }\n", "g.H($A)"},
		"css":        {"a.css", ".a { color: red; }\n", ".a { color: $C; }"},
		"go":         {"a.go", "package a\n\nfunc f() { return g() }\n", "func $F() { $$$ }"},
		"hcl":        {"a.tf", "resource \"a\" \"b\" {\n  c = 1\n}\n", "resource \"a\" \"b\" { $$$ }"},
		"html":       {"a.html", "<p class=\"x\">y</p>\n", "<p class=\"x\">$A</p>"},
		"java":       {"A.java", "class A { void f() { g(1); } }\n", "g($A)"},
		"javascript": {"a.mjs", "f(1)\n", "f($A)"}, "json": {"a.json", "{\"a\": {\"b\": [1, 2]}, \"c\": 3}\n", "{\"b\": $V}"},
		"kotlin": {"a.kt", "fun f() { g(1) }\n", "g($A)"}, "lua": {"a.lua", "local x = f(1)\n", "f($A)"},
		"php": {"a.php", "<?php\n$x = f(1);\n", "f($A)"}, "python": {"a.py", "x = f(1, y)\n", "f($$$A)"},
		"ruby":  {"a.rb", "class A\n  def f\n    g(1)\n  end\nend\n", "class $C\n  $$$\nend"},
		"rust":  {"a.rs", "fn f() { g(1); }\n", "g($A)"},
		"swift": {"a.swift", "let x = f(1)\n", "f($A)"}, "tsx": {"a.tsx", "const a = <p b={c}>d</p>\n", "<p $$$>$X</p>"},
		"typescript": {"a.ts", "import { a } from \"b\"\n", "import { $A } from $B"},
		"yaml":       {"a.yaml", "a:\n  b: 1\n", "b: $V"},
	}
	b := newBench(t)
	for _, lang := range syntax.Languages() {
		c, ok := cases[lang.Name]
		if !ok {
			t.Errorf("no case for %s", lang.Name)
			continue
		}
		b.write(lang.Name+"/"+c[0], c[1])
		var r astResult
		if b.ok("search.ast", in{"pattern": c[2], "lang": lang.Name}, &r); r.Count != 1 {
			t.Errorf("%s: %q matches %d times: %s", lang.Name, c[2], r.Count, r.Hint)
		}
	}
}

// An incomplete pattern is refused with a complete one as a suggestion (T-SEARCH-AST-06, T-FM-11).
func TestSearchAstRefusesIncompletePatterns(t *testing.T) {
	t.Parallel()
	b := codeProject(t)
	for pattern, says := range map[string]string{
		"console.log(": "such as", "": "no code", "a b": "typescript code", "$$$A": "something around it",
		"f($A":                 "typescript code",
		"let x = 1; let y = 2": "more than one node",
	} {
		if f := b.fails(fault.InvalidPattern, "search.ast",
			in{"pattern": pattern, "lang": "typescript"}); !strings.Contains(f.Error(), says) {
			t.Errorf("%q: %v", pattern, f)
		}
	}
	b.fails(fault.InvalidParams, "search.ast", in{"pattern": "x", "lang": "cobol"})
	b.fails(fault.InvalidParams, "search.ast", in{"pattern": "x"})
	b.fails(fault.InvalidParams, "search.ast", in{"pattern": "x", "lang": "go", "paths": []string{"../x"}})
	b.fails(fault.InvalidParams, "search.ast", in{"pattern": "x", "lang": "go", "globs": []string{"["}})
	b.fails(fault.InvalidParams, "search.ast", in{
		"pattern": "x", "lang": "go", "globs": slices.Repeat([]string{"*.go"}, 101),
	})
	b.fails(fault.FileNotFound, "search.ast", in{"pattern": "x", "lang": "go", "paths": []string{"nope"}})
}

// For matches outside the cage the answer has the position without the text. A search of a path outside the cage is
// denied (T-SEARCH-AST-08, T-AVAIL-04, T-PERM-FILTER-01).
func TestSearchAstInACage(t *testing.T) {
	t.Parallel()
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./src/deep"}}}
	b := codeProject(t)
	b.from.Agent, b.from.Cage = "primary.subagents.x", policy
	var r astResult
	b.ok("search.ast", in{"pattern": "console.log($M)", "lang": "typescript", "context": 1}, &r)
	want := []string{
		"./src/deep/d.mts:1:console.log(\n  a,\n) M=a", "./src/main.test.ts:1 outside", "./src/main.ts:4 outside",
	}
	if d := cmp.Diff(want, r.flat()); d != "" || r.Matches[1].ContextAfter != nil {
		t.Error(d)
	}
	b.fails(fault.CapabilityDenied, "search.ast", in{
		"pattern": "x", "lang": "typescript", "paths": []string{"src/main.ts"},
	})
	b.fails(fault.CapabilityDenied, "search.ast", in{
		"pattern": "x", "lang": "typescript", "paths": []string{"src/deep", "gen"},
	})
	hiding := codeProject(t, func(b *bench) { b.limits.Search.HideOutside = true })
	hiding.from.Cage = policy
	r = astResult{}
	if hiding.ok("search.ast", in{"pattern": "console.log($M)", "lang": "typescript"}, &r); r.Count != 1 {
		t.Errorf("found %v", r.flat())
	}
}

// Matches that do not fit into the answer are left out and counted. A search of a tree with files of every kind
// succeeds.
func TestSearchAstLimits(t *testing.T) {
	t.Parallel()
	b := codeProject(t, func(b *bench) {
		b.limits.Search.OutputBytes, b.limits.Syntax.FileBytes, b.limits.LineRunes = 4000, 10_000, 20
	})
	b.write("many.go", "package p\n\nfunc f() {\n"+strings.Repeat("\tg(1)\n", 500)+"}\n")
	b.write("large.go", "package p\n\nvar x = g(1)\n"+strings.Repeat("// long\n", 5000))
	b.write("odd.go", "package p\n\nvar x = g(\"\xff\")\n")
	b.write("broken.go", "package p\n\nfunc ( { g(1) \n")
	if err := unix.Mkfifo(filepath.Join(b.root, "pipe.go"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.link(".", "self")
	var r astResult
	b.ok("search.ast", in{"pattern": "g(1)", "lang": "go"}, &r)
	if r.Count < 500 || !r.Truncated || len(r.Matches) == 0 || len(r.Matches) >= 500 {
		t.Errorf("%d of %d, truncated %v", len(r.Matches), r.Count, r.Truncated)
	}
	for _, m := range r.Matches {
		if m.File == "./large.go" || m.File == "./odd.go" {
			t.Errorf("found %s", m.File)
		}
	}
	r = astResult{}
	if b.ok("search.ast", in{"pattern": "func f() { $$$B }", "lang": "go"}, &r); len([]rune(*r.Matches[0].Content)) > 40 {
		t.Errorf("content %q", *r.Matches[0].Content)
	}
}

// When its time is over, a search returns the matches found until then.
func TestSearchAstOutOfTime(t *testing.T) {
	t.Parallel()
	b := codeProject(t, func(b *bench) { b.limits.Search.Timeout = time.Nanosecond })
	o, err := b.do(t.Context(), "search.ast", in{"pattern": "f($A)", "lang": "typescript"})
	if err != nil || o.Fault != nil && o.Fault.Code != fault.Timeout {
		t.Fatal(err, o.Fault)
	}
}

// A file that could not be searched is counted once, so that it does not look like a file without a match. If the
// operator hides matches outside a cage, such a file outside the cage is not reported.
func TestSearchAstTellsWhatItLeftOut(t *testing.T) {
	t.Parallel()
	for _, hide := range []bool{false, true} {
		b := newBench(t, func(b *bench) {
			b.limits.Syntax.FileBytes, b.limits.Syntax.Nodes, b.limits.Search.HideOutside = 1000, 200, hide
		})
		b.write("src/a.ts", "f(1)\n")
		b.write("src/large.ts", strings.Repeat("// f(1)\n", 200))
		b.write("src/nodes.ts", strings.Repeat("f(1)\n", 190))
		b.write("src/latin.ts", "f('\xe9')\n")
		b.write("src/other.py", "f('\xe9')\n")
		b.write("out/large.ts", strings.Repeat("// f(1)\n", 200))
		var r astResult
		b.ok("search.ast", in{"pattern": "f($A)", "lang": "typescript", "paths": []string{".", "src"}}, &r)
		if r.Count != 1 || r.Skipped != 4 {
			t.Errorf("%+v", r)
		}
		b.from.Cage = &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./src"}}}
		var caged astResult
		b.ok("search.ast", in{"pattern": "f($A)", "lang": "typescript"}, &caged)
		if want := map[bool]int{false: 4, true: 3}[hide]; caged.Count != 1 || caged.Skipped != want {
			t.Errorf("hidden %v: %+v", hide, caged)
		}
	}
}

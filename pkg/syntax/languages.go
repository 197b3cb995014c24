package syntax

import (
	"path"
	"slices"
	"strings"
)

// Language is a supported language.
type Language struct {
	// Name is its name for callers.
	Name string
	// Extensions are the extensions of its files, without dot.
	Extensions []string
	// Sigil replaces the dollar of a meta variable if the grammar does not allow a dollar in identifiers.
	Sigil rune

	sample  string // a short program without errors
	grammar *grammar
}

// sigil is a letter that is rare in names and allowed by every grammar with non-ASCII letters. The C grammars allow
// only some of them, the others need another one.
const (
	micro  = 'µ'
	linear = '\U00010000'
)

// Languages returns all languages sorted by name. The caller must not change them.
func Languages() []*Language { return languages }

var languages = func() []*Language {
	list := []*Language{
		{
			Name: "bash", Sigil: '$', Extensions: split("bash bats cgi command env fcgi ksh sh tmux tool zsh"),
			sample: "if [ -f a ]; then echo \"$b\" | c; fi\n",
		},
		{
			Name: "c", Sigil: linear, Extensions: split("c h"),
			sample: "#include <stdio.h>\nint main(void) { return f(1, \"a\"); }\n",
		},
		{
			Name: "cpp", Sigil: linear, Extensions: split("cc hpp cpp c++ hh cxx cu ino"),
			sample: "template <class T> struct A { T f() { return g<T>(1); } };\n",
		},
		{Name: "csharp", Sigil: micro, Extensions: split("cs"), sample: "class A { int F(int x) { return x + 1; } }\n"},
		{Name: "css", Sigil: '_', Extensions: split("css scss"), sample: ".a > b:hover { color: #fff; margin: 0 1px; }\n"},
		{
			Name: "go", Sigil: micro, Extensions: split("go"),
			sample: "package a\n\nfunc f(x int) error { return g(x, \"a\") }\n",
		},
		{
			Name: "hcl", Sigil: micro, Extensions: split("hcl nomad tf tfvars workflow"),
			sample: "resource \"a\" \"b\" {\n  c = [1, \"${d.e}\"]\n}\n",
		},
		{
			Name: "html", Sigil: 'z', Extensions: split("html htm xhtml"), sample: "<!DOCTYPE html>\n<p class=\"a\">b<br></p>\n",
		},
		{Name: "java", Sigil: '$', Extensions: split("java"), sample: "class A { int f(int x) { return g(x, \"a\"); } }\n"},
		{
			Name: "javascript", Sigil: '$', Extensions: split("cjs js mjs jsx"),
			sample: "const f = async (x) => { await g(x, `a${b}`); };\n",
		},
		{Name: "json", Sigil: '$', Extensions: split("json"), sample: "{\"a\": [1, true, null, \"b\"]}\n"},
		{
			Name: "kotlin", Sigil: micro, Extensions: split("kt ktm kts"), sample: "fun f(x: Int): Int { return g(x, \"a\") }\n",
		},
		{Name: "lua", Sigil: '$', Extensions: split("lua"), sample: "local function f(x) return g(x, \"a\") end\n"},
		{Name: "php", Sigil: micro, Extensions: split("php"), sample: "<?php function f($x) { return g($x, \"a\"); }\n"},
		{
			Name: "python", Sigil: micro, Extensions: split("py py3 pyi bzl"), sample: "def f(x):\n    return g(x, f\"a{b}\")\n",
		},
		{
			Name: "ruby", Sigil: micro, Extensions: split("rb rbw gemspec"),
			sample: "def f(x)\n  g x, \"a#{b}\" do |c| c end\nend\n",
		},
		{Name: "rust", Sigil: micro, Extensions: split("rs"), sample: "fn f(x: &str) -> Option<u8> { g!(x, \"a\")?.h() }\n"},
		{Name: "swift", Sigil: micro, Extensions: split("swift"), sample: "func f(x: Int) -> Int { return g(x, \"a\") }\n"},
		{Name: "tsx", Sigil: '$', Extensions: split("tsx"), sample: "const f = (x: number) => <a b={x}>c</a>;\n"},
		{
			Name: "typescript", Sigil: '$', Extensions: split("ts cts mts"),
			sample: "function f<T>(x: T): string { return g(x as any, 'a'); }\n",
		},
		{Name: "yaml", Sigil: '$', Extensions: split("yaml yml"), sample: "a:\n  - b: 1\n  - \"c\"\n"},
	}
	compiled := grammars()
	for _, l := range list {
		l.grammar = compiled[l.Name]
	}
	return list
}()

func split(list string) []string { return strings.Fields(list) }

// Lookup returns the language with the given name, or nil.
func Lookup(name string) *Language {
	i := slices.IndexFunc(languages, func(l *Language) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return languages[i]
}

var byExtension = func() map[string]*Language {
	m := map[string]*Language{}
	for _, l := range languages {
		for _, e := range l.Extensions {
			m[e] = l
		}
	}
	return m
}()

// Of returns the language of a file with the given name, or nil.
func Of(file string) *Language {
	// The leading dot of a hidden file is part of its name.
	name := strings.TrimPrefix(path.Base(file), ".")
	return byExtension[strings.TrimPrefix(path.Ext(name), ".")]
}

// Kind returns the grammar's name of a kind of node, such as call_expression.
func (l *Language) Kind(symbol uint16) string {
	switch {
	case symbol == ErrorSymbol:
		return "ERROR"
	case l.grammar == nil || int(symbol) >= len(l.grammar.symbols):
		return ""
	}
	return l.grammar.symbols[symbol]
}

// Kinds returns the number of kinds of nodes, which are numbered from 0.
func (l *Language) Kinds() int {
	if l.grammar == nil {
		return 0
	}
	return len(l.grammar.symbols)
}

package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"testing"
)

const source = `package p

type a struct{ X, Y int; In *a; Name string }

func (v a) GetX() int { return v.X }
func (v a) GetY() int { return v.Y }

type b struct{ X, Y int; In *b; Name string }

type other struct{ Name string }

func (o other) named(s string) string { return o.Name + s }

func newID() string { return "" }

func literal(v a) b     { return b{X: v.X, Y: v.Y} }
func getters(v a) *b    { return &b{X: v.GetX(), Y: int(int64(v.GetY()))} }
func assigned(v a) (w b) {
	w.X, w.Y = v.X, v.Y
	return w
}
func both(v a, o other) b { return b{X: v.X, Y: v.Y, Name: o.Name} }
func parts(v a) b {
	in := v.In
	return b{X: in.X, Y: v.Y}
}
func checked(v any) (w b) {
	switch v := v.(type) {
	case a:
		w.X, w.Y = v.X, v.Y
	case other:
		w.Name = v.Name
	}
	return w
}
func list(l []a) (out []b) {
	for _, v := range l {
		out = append(out, b{X: v.X, Y: v.Y})
	}
	return out
}
func present(v *a) *b {
	if v == nil {
		return nil
	}
	return &b{X: v.X, Y: v.Y, In: present(v.In)}
}

func one(v a) b   { return b{X: v.X} }
func same(v a) a  { return a{X: v.X, Y: v.Y} }
func sum(v a) b   { return b{X: v.X + 1, Y: v.Y} }
func rule(v a) b {
	if v.X < v.Y {
		return b{}
	}
	return b{X: v.X, Y: v.Y}
}
func method(v a, o other) b { return b{X: v.X, Y: v.Y, Name: o.named(v.Name)} }
func fresh(v a) b           { return b{X: v.X, Y: v.Y, Name: newID()} }
func index(l []a) map[string]b {
	m := map[string]b{}
	for _, v := range l {
		m[v.Name] = b{X: v.X, Y: v.Y}
	}
	return m
}
func taken(v *a) b {
	w := b{X: v.X, Y: v.Y}
	v.X, v.Y = 0, 0
	return w
}
func effect(v a) b {
	println(v.X)
	return b{X: v.X, Y: v.Y}
}
`

// A function counts if it only copies two or more fields to another type. Fields of several values are an assembly.
func TestCountsCopiesOnly(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"literal": "package", "getters": "package", "assigned": "package", "list": "package", "present": "package",
		"parts": "package", "checked": "package", "both": assembly,
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{},
	}
	if _, err := (&types.Config{Importer: importer.Default()}).Check("p", fset, []*ast.File{file}, info); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range inFile(fset, info, file, ".") {
		got[f.name] = f.kind
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && got[fn.Name.Name] != want[fn.Name.Name] {
			t.Errorf("%s: got kind %q, want %q", fn.Name.Name, got[fn.Name.Name], want[fn.Name.Name])
		}
	}
}

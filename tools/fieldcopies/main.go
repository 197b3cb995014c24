// Command fieldcopies counts functions that only copy fields between struct types: converters between two
// declarations of one fact. With -v it prints each one, then the count of each kind:
//
//   - value: a conversion in pkg between a message and the one Go type of its fact;
//   - wire: any other function that reads or fills a message of proto/gen;
//   - row: one that reads or fills a struct of sqlc;
//   - packages: one between structs of two packages;
//   - package: one between structs of the same package.
//
// A function counts if its body holds at least two field copies and, beside them, only carriers. A field copy is an
// element of a struct literal, or an assignment to a field, with a value read from a value of another struct type:
// a field, a getter, or one of these passed through a conversion or a function of one argument. Carriers are
// declarations, returns, ranges, tests for nil, zero or presence, type switches, append, make and len. Arithmetic,
// other conditions, calls for effect, methods with arguments, functions that make a new value such as an id or the
// time, maps keyed by a field, changes of the value that is read, goroutines and channels make it a function with a
// job of its own. Tests and test support are left out, and so is generated code, as that of tools/convert: its fields
// are typed by a program, which refuses a forgotten one.
//
// All copied fields of a converter come from one value: a parameter, the receiver, or a part of it. A function that
// takes them from several, such as the options of a service from its configuration and its dependencies, makes a
// value that exists in no other form. These are counted and printed as assembly, not as conversions.
//
// Usage: fieldcopies [-dir root] [-v] [packages]; the default is every package of the workspace.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("dir", ".", "the root of the workspace")
	verbose := flag.Bool("v", false, "print each function")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"kaged.dev/pkg/...", "kaged.dev/services/..."}
	}
	found, err := count(*dir, patterns)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fieldcopies:", err)
		os.Exit(1)
	}
	total, lines, kinds := 0, 0, map[string]int{}
	for _, f := range found {
		kinds[f.kind]++
		if f.kind != assembly {
			total++
			lines += f.lines
		}
		if *verbose {
			fmt.Printf("%s:%d\t%s\t%d\t%s\n", f.file, f.line, f.kind, f.lines, f.name)
		}
	}
	fmt.Printf("%d functions of %d lines only copy fields", total, lines)
	for _, kind := range []string{"value", "wire", "row", "packages", "package"} {
		fmt.Printf("; %s %d", kind, kinds[kind])
	}
	fmt.Printf("; beside them %d assemble a value of several\n", kinds[assembly])
}

// testSupport matches the packages that only tests import.
var testSupport = regexp.MustCompile(`/testkit(/|$)|test(/|$)|/e2e(/|$)|/bench(/|$)`)

type function struct {
	file, name, kind string
	line, lines      int
}

// count returns the functions of the packages that only copy fields, by file and line.
func count(dir string, patterns []string) ([]function, error) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	pkgs, err := packages.Load(&packages.Config{Mode: mode, Dir: dir, Fset: fset}, patterns...)
	if err != nil {
		return nil, err
	}
	var found []function
	for _, p := range pkgs {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		if testSupport.MatchString(p.PkgPath) {
			continue
		}
		for _, file := range p.Syntax {
			if !ast.IsGenerated(file) {
				found = append(found, inFile(fset, p.TypesInfo, file, dir)...)
			}
		}
	}
	sort.Slice(found, func(i, j int) bool {
		if found[i].file != found[j].file {
			return found[i].file < found[j].file
		}
		return found[i].line < found[j].line
	})
	return found, nil
}

func inFile(fset *token.FileSet, info *types.Info, file *ast.File, dir string) []function {
	var found []function
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		c := &copies{info: info, packages: map[string]bool{}, sources: newSources(info, fn)}
		if !c.block(fn.Body) || c.fields < minFields || c.sources.changed() {
			continue
		}
		at := fset.Position(fn.Pos())
		name, err := filepath.Rel(dir, at.Filename)
		if err != nil {
			name = at.Filename
		}
		found = append(found, function{
			file: name, name: fn.Name.Name, kind: c.kind(name), line: at.Line, lines: fset.Position(fn.End()).Line - at.Line + 1,
		})
	}
	return found
}

// assembly is the kind of a function that copies fields of several values into one.
const assembly = "assembly"

// minFields is the minimum number of fields that a function copies: one field is a choice, two are a structure.
const minFields = 2

// copies reads a function's body and counts the fields that it copies.
type copies struct {
	info     *types.Info
	fields   int
	packages map[string]bool // the packages that declare the structs
	sources  *sources
}

// kind returns the kind of conversion by the packages of the structs.
func (c *copies) kind(file string) string {
	if len(c.sources.read) > 1 {
		return assembly
	}
	wire, row := false, false
	for path := range c.packages {
		wire = wire || strings.Contains(path, "/proto/gen/")
		row = row || strings.HasSuffix(path, "/store/db")
	}
	switch {
	case wire && strings.HasPrefix(file, "pkg"+string(filepath.Separator)):
		return "value"
	case wire:
		return "wire"
	case row:
		return "row"
	case len(c.packages) > 1:
		return "packages"
	}
	return "package"
}

func (c *copies) block(b *ast.BlockStmt) bool { return b == nil || c.all(b.List) }

func (c *copies) all(list []ast.Stmt) bool {
	for _, s := range list {
		if !c.stmt(s) {
			return false
		}
	}
	return true
}

// stmt reports whether a statement copies fields or is a carrier of copies.
func (c *copies) stmt(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return c.values(s.Results)
	case *ast.DeclStmt:
		return c.decl(s)
	case *ast.AssignStmt:
		return c.assign(s)
	case *ast.RangeStmt:
		return c.value(s.X) && c.block(s.Body)
	case *ast.IfStmt:
		return (s.Init == nil || c.stmt(s.Init)) && c.presence(s.Cond) && c.block(s.Body) && (s.Else == nil || c.stmt(s.Else))
	case *ast.BlockStmt:
		return c.block(s)
	case *ast.SwitchStmt:
		return (s.Tag == nil || c.value(s.Tag)) && c.cases(s.Body)
	case *ast.TypeSwitchStmt:
		return c.cases(s.Body)
	case *ast.EmptyStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE || s.Tok == token.BREAK
	}
	return false
}

func (c *copies) decl(s *ast.DeclStmt) bool {
	decl, ok := s.Decl.(*ast.GenDecl)
	if !ok {
		return false
	}
	for _, spec := range decl.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && !c.values(v.Values) {
			return false
		}
	}
	return true
}

func (c *copies) cases(body *ast.BlockStmt) bool {
	for _, s := range body.List {
		clause, ok := s.(*ast.CaseClause)
		if !ok || !c.all(clause.Body) {
			return false
		}
		for _, e := range clause.List {
			if !c.presence(e) {
				return false
			}
		}
	}
	return true
}

func (c *copies) assign(s *ast.AssignStmt) bool {
	if s.Tok != token.ASSIGN && s.Tok != token.DEFINE {
		return false
	}
	for i, left := range s.Lhs {
		switch left := left.(type) {
		case *ast.SelectorExpr:
			c.sources.changes(left)
			if i < len(s.Rhs) {
				c.note(c.info.TypeOf(left.X), s.Rhs[i])
			}
		case *ast.IndexExpr:
			_, byField := left.Index.(*ast.SelectorExpr)
			if _, isMap := c.info.TypeOf(left.X).Underlying().(*types.Map); isMap && byField {
				return false
			}
		}
	}
	return c.values(s.Rhs)
}

// note counts a copy into a struct of type to, if the value comes from a struct of another type.
func (c *copies) note(to types.Type, value ast.Expr) {
	if from := c.source(value); from != nil && isStruct(to) && isStruct(from) && !types.Identical(deref(to), deref(from)) {
		c.fields++
		c.sources.copied(value)
		c.declared(from)
		c.declared(to)
	}
}

func (c *copies) declared(t types.Type) {
	if named, ok := types.Unalias(deref(t)).(*types.Named); ok && named.Obj().Pkg() != nil {
		c.packages[named.Obj().Pkg().Path()] = true
	}
}

// source returns the type of the struct with the field that a value is read from, nil for other values.
func (c *copies) source(e ast.Expr) types.Type {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.source(e.X)
	case *ast.StarExpr:
		return c.source(e.X)
	case *ast.UnaryExpr:
		return c.source(e.X)
	case *ast.IndexExpr:
		return c.source(e.Index)
	case *ast.SelectorExpr:
		if s := c.info.Selections[e]; s != nil && s.Kind() == types.FieldVal {
			return c.info.TypeOf(e.X)
		}
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok && len(e.Args) == 0 && c.info.Selections[sel] != nil {
			if strings.HasPrefix(sel.Sel.Name, "Get") {
				return c.info.TypeOf(sel.X)
			}
			return c.source(sel.X)
		}
		if len(e.Args) == 1 {
			return c.source(e.Args[0])
		}
	}
	return nil
}

// presence reports whether a condition only tests for presence: nil, zero, a flag, a kind.
func (c *copies) presence(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.presence(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.NOT && c.presence(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			return c.presence(e.X) && c.presence(e.Y)
		case token.EQL, token.NEQ:
			return c.value(e.X) && c.value(e.Y) && (c.fixed(e.X) || c.fixed(e.Y))
		case token.GTR:
			return c.value(e.X) && isZero(e.Y)
		}
		return false
	case *ast.ArrayType, *ast.StarExpr, *ast.MapType, *ast.InterfaceType:
		return true
	}
	return c.value(e)
}

// fixed reports whether an expression is nil or a constant. A comparison of two values is a decision.
func (c *copies) fixed(e ast.Expr) bool {
	tv := c.info.Types[e]
	return tv.IsNil() || tv.Value != nil
}

func (c *copies) values(list []ast.Expr) bool {
	for _, e := range list {
		if !c.value(e) {
			return false
		}
	}
	return true
}

// value reports whether an expression only reads, converts or composes.
func (c *copies) value(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident, *ast.BasicLit:
		return true
	case *ast.SelectorExpr:
		return c.value(e.X)
	case *ast.ParenExpr:
		return c.value(e.X)
	case *ast.StarExpr:
		return c.value(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.AND && c.value(e.X) || e.Op == token.NOT && c.presence(e.X)
	case *ast.BinaryExpr:
		return c.presence(e)
	case *ast.IndexExpr:
		return c.value(e.X) && c.value(e.Index)
	case *ast.CompositeLit:
		return c.literal(e)
	case *ast.CallExpr:
		return c.call(e)
	}
	return false
}

func (c *copies) literal(e *ast.CompositeLit) bool {
	t := c.info.TypeOf(e)
	for _, el := range e.Elts {
		v := el
		if kv, ok := el.(*ast.KeyValueExpr); ok {
			v = kv.Value
		}
		c.note(t, v)
		if !c.value(v) {
			return false
		}
	}
	return true
}

// call allows builtins, conversions, methods without arguments, and functions of one argument, because they only
// convert a value. A function without arguments makes a new one.
func (c *copies) call(e *ast.CallExpr) bool {
	if tv := c.info.Types[e.Fun]; tv.IsType() || tv.IsBuiltin() {
		return tv.IsType() && c.values(e.Args) || c.builtin(e)
	}
	arguments := 1
	if sel, ok := e.Fun.(*ast.SelectorExpr); ok && c.info.Selections[sel] != nil {
		arguments = 0
	}
	return len(e.Args) == arguments && c.value(e.Fun) && c.values(e.Args)
}

func (c *copies) builtin(e *ast.CallExpr) bool {
	name, ok := e.Fun.(*ast.Ident)
	if !ok {
		return false
	}
	switch name.Name {
	case "append", "len", "new", "cap":
		return c.values(e.Args)
	case "make":
		return c.values(e.Args[1:])
	}
	return false
}

func isZero(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == "0"
}

func isStruct(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := deref(t).Underlying().(*types.Struct)
	return ok
}

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

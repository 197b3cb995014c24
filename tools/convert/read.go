package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/tools/go/packages"
)

// requests are all requests of the packages.
type requests struct {
	packages []*target
	known    []*converter // in the order of declaration
	all      map[string]*types.Package
}

// target is a package with its requests.
type target struct {
	pkg     *types.Package
	dir     string
	imports map[string]string // paths by the names in files and requests
	used    []*converter      // hand-written functions under use
	wanted  []*converter
	oneofs  []*oneof
}

// converter is a function, method or map from one type to another.
type converter struct {
	pkg      *types.Package
	name     string
	method   bool
	isMap    bool
	from, to types.Type
	params   string // the parameters after the first, as written
	// names pair paths of from with paths of to.
	names [][2]string
	// computed has the expressions by paths of to, through the functions by basic types of to.
	computed, through map[string]string
	lists             bool
	at                token.Position
}

// oneof is a switch between an interface and a message.
type oneof struct {
	name, reverse  string
	value, message types.Type
	at             token.Position
}

func read(pkgs []*packages.Package) (*requests, error) {
	r := &requests{all: map[string]*types.Package{}}
	packages.Visit(pkgs, nil, func(p *packages.Package) { r.all[p.PkgPath] = p.Types })
	sort.Slice(pkgs, func(i, j int) bool { return pkgs[i].PkgPath < pkgs[j].PkgPath })
	type use struct {
		t *target
		line
	}
	var uses []use
	var failed []error
	for _, p := range pkgs {
		t := &target{pkg: p.Types, imports: map[string]string{}}
		var lines []line
		for _, file := range p.Syntax {
			lines = append(lines, r.readFile(p, t, file)...)
		}
		for _, l := range lines {
			if l.words[0] == "use" {
				uses = append(uses, use{t, l})
			} else if err := r.readLine(t, l.words, l.at); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", l.at, err))
			}
		}
		if len(t.wanted)+len(t.oneofs) > 0 {
			t.dir = filepath.Dir(p.GoFiles[0])
			r.packages = append(r.packages, t)
		}
	}
	// They may name functions that other lines request.
	for _, u := range uses {
		for _, name := range u.words[1:] {
			c, err := r.named(u.t, name)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", u.at, err))
				continue
			}
			u.t.used = append(u.t.used, c)
		}
	}
	for _, t := range r.packages {
		for _, o := range t.oneofs {
			r.addNamesakes(t, o)
		}
	}
	return r, errors.Join(failed...)
}

// line is a request with its continuation lines.
type line struct {
	words []string
	at    token.Position
}

// readFile returns the requests of a file, and records the imports that they may use.
func (r *requests) readFile(p *packages.Package, t *target, file *ast.File) (lines []line) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			text, ok := strings.CutPrefix(c.Text, "//convert:")
			words := split(text)
			switch {
			case !ok || len(words) == 0:
			case words[0] == "with" && len(lines) > 0:
				lines[len(lines)-1].words = append(lines[len(lines)-1].words, words[1:]...)
			case words[0] == "import" && len(words) == 3:
				t.imports[words[1]] = strings.Trim(words[2], `"`)
			default:
				lines = append(lines, line{words, p.Fset.Position(c.Pos())})
			}
		}
	}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := ""
		if spec.Name != nil {
			name = spec.Name.Name
		} else if of := r.all[path]; of != nil {
			name = of.Name()
		}
		t.imports[name] = path
	}
	return lines
}

func (r *requests) readLine(t *target, words []string, at token.Position) error {
	switch verb := words[0]; {
	case verb == "one" && len(words) >= 4:
		c, err := r.converter(t, words[1], words[2], words[3], at)
		if err != nil {
			return err
		}
		return r.add(t, c, nil, words[4:])
	case verb == "both" && len(words) >= 5:
		c, err := r.converter(t, words[1], words[3], words[4], at)
		if err != nil {
			return err
		}
		back, err := r.converter(t, words[2], words[4], words[3], at)
		if err != nil {
			return err
		}
		return r.add(t, c, back, words[5:])
	case verb == "oneof" && len(words) == 5:
		value, err := r.typeOf(t, words[3])
		if err != nil {
			return err
		}
		message, err := r.typeOf(t, words[4])
		if err != nil {
			return err
		}
		t.oneofs = append(t.oneofs, &oneof{words[1], words[2], value, message, at})
		return nil
	}
	return fmt.Errorf("cannot read %q", strings.Join(words, " "))
}

func (r *requests) converter(t *target, name, from, to string, at token.Position) (*converter, error) {
	c := &converter{pkg: t.pkg, at: at, computed: map[string]string{}, through: map[string]string{}}
	if open := strings.Index(name, "("); open > 0 {
		name, c.params = name[:open], strings.TrimSuffix(name[open+1:], ")")
	}
	c.name, c.method = strings.TrimPrefix(name, "."), strings.HasPrefix(name, ".")
	var err error
	if c.from, err = r.typeOf(t, from); err != nil {
		return nil, err
	}
	c.to, err = r.typeOf(t, to)
	return c, err
}

// add reads the options of a conversion and of its reverse, which may be nil, and stores both.
func (r *requests) add(t *target, c, back *converter, options []string) error {
	for _, o := range options {
		of := c
		if strings.HasPrefix(o, "<") {
			of = back
		}
		directed := o[0] == '>' || o[0] == '<'
		left, right, ok := strings.Cut(strings.TrimLeft(o, "<>"), "=")
		switch {
		case of == nil || !ok && !(directed && left == "list"):
			return fmt.Errorf("cannot read option %q", o)
		case !ok:
			of.lists = true
		case !directed:
			c.names = append(c.names, [2]string{left, right})
			if back != nil {
				back.names = append(back.names, [2]string{right, left})
			}
		case types.Universe.Lookup(left) != nil:
			of.through[left] = right
		default:
			of.computed[left] = right
		}
	}
	for _, c := range []*converter{c, back} {
		if c == nil {
			continue
		}
		t.wanted = append(t.wanted, c)
		if c.params == "" {
			r.known = append(r.known, c)
		}
	}
	return nil
}

// named returns a function or map of the package, or of an imported package.
func (r *requests) named(t *target, name string) (*converter, error) {
	scope, pkg := t.pkg.Scope(), t.pkg
	short := name
	if alias, of, ok := strings.Cut(name, "."); ok {
		pkg = r.all[t.imports[alias]]
		if pkg == nil {
			return nil, fmt.Errorf("no import is called %s", alias)
		}
		scope, short = pkg.Scope(), of
	}
	for _, c := range r.known {
		if c.pkg == pkg && c.name == short && !c.method {
			return c, nil
		}
	}
	obj := scope.Lookup(short)
	if obj == nil {
		return nil, fmt.Errorf("there is no %s", name)
	}
	c := &converter{pkg: pkg, name: short}
	switch typ := obj.Type().Underlying().(type) {
	case *types.Signature:
		if typ.Params().Len() != 1 || typ.Results().Len() != 1 {
			return nil, fmt.Errorf("%s is no function of one value to another", name)
		}
		c.from, c.to = typ.Params().At(0).Type(), typ.Results().At(0).Type()
	case *types.Map:
		c.isMap, c.from, c.to = true, typ.Key(), typ.Elem()
	default:
		return nil, fmt.Errorf("%s is neither a function nor a map", name)
	}
	return c, nil
}

// typeOf resolves a type as written in a request.
func (r *requests) typeOf(t *target, text string) (types.Type, error) {
	e, err := parser.ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", text, err)
	}
	return r.resolve(t, e)
}

func (r *requests) resolve(t *target, e ast.Expr) (types.Type, error) {
	switch e := e.(type) {
	case *ast.StarExpr:
		of, err := r.resolve(t, e.X)
		if err != nil {
			return nil, err
		}
		return types.NewPointer(of), nil
	case *ast.ArrayType:
		of, err := r.resolve(t, e.Elt)
		if err != nil {
			return nil, err
		}
		return types.NewSlice(of), nil
	case *ast.MapType:
		key, err := r.resolve(t, e.Key)
		if err != nil {
			return nil, err
		}
		of, err := r.resolve(t, e.Value)
		if err != nil {
			return nil, err
		}
		return types.NewMap(key, of), nil
	case *ast.Ident:
		if obj := t.pkg.Scope().Lookup(e.Name); obj != nil {
			return obj.Type(), nil
		}
		if obj := types.Universe.Lookup(e.Name); obj != nil {
			return obj.Type(), nil
		}
		return nil, fmt.Errorf("there is no type %s", e.Name)
	case *ast.SelectorExpr:
		name, ok := e.X.(*ast.Ident)
		if !ok {
			break
		}
		pkg := r.all[t.imports[name.Name]]
		if pkg == nil {
			return nil, fmt.Errorf("no import is called %s; add  //convert:import %s \"path\"", name.Name, name.Name)
		}
		if obj := pkg.Scope().Lookup(e.Sel.Name); obj != nil {
			return obj.Type(), nil
		}
		return nil, fmt.Errorf("there is no type %s.%s", name.Name, e.Sel.Name)
	}
	return nil, fmt.Errorf("cannot read the type")
}

// split splits a line at spaces outside brackets and quotes.
func split(text string) (words []string) {
	depth, start, quote := 0, -1, rune(0)
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '`' || c == '\'':
			quote = c
		case strings.ContainsRune("([{", c):
			depth++
		case strings.ContainsRune(")]}", c):
			depth--
		case (c == ' ' || c == '\t') && depth == 0:
			if start >= 0 {
				words = append(words, text[start:i])
			}
			start = -1
			continue
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		words = append(words, text[start:])
	}
	return words
}

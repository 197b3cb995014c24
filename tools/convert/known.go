package main

import (
	"go/types"
	"strings"
)

// call converts with a function, method or map between these types, or between the types that they point to.
func (w *writer) call(dst, src string, from, to types.Type) bool {
	fromPtr, _ := from.Underlying().(*types.Pointer)
	toPtr, _ := to.Underlying().(*types.Pointer)
	if c := w.lookup(from, to); c != nil {
		w.line("%s = %s", dst, w.called(c, src))
		return true
	}
	if fromPtr != nil && isStruct(from) {
		if c := w.lookup(fromPtr.Elem(), to); c != nil {
			w.line("if %s != nil { %s = %s }", src, dst, w.called(c, "*"+src))
			return true
		}
		if toPtr != nil {
			for _, f := range []struct {
				from types.Type
				expr string
			}{{from, src}, {fromPtr.Elem(), "*" + src}} {
				if c := w.lookup(f.from, toPtr.Elem()); c != nil {
					w.line("if %s != nil {\nv := %s\n%s = &v\n}", src, w.called(c, f.expr), dst)
					return true
				}
			}
		}
	}
	if fromPtr == nil && isStruct(from) {
		if c := w.lookup(types.NewPointer(from), to); c != nil {
			w.line("%s = %s", dst, w.called(c, "&"+src))
			return true
		}
	}
	if toPtr == nil && isStruct(to) {
		if c := w.lookup(from, types.NewPointer(to)); c != nil {
			w.line("if v := %s; v != nil { %s = *v }", w.called(c, src), dst)
			return true
		}
	}
	if toPtr != nil && isStruct(to) && !isMessage(toPtr.Elem()) && fromPtr == nil {
		if c := w.lookup(from, toPtr.Elem()); c != nil {
			v := w.temp("v")
			w.line("%s := %s\n%s = &%s", v, w.called(c, src), dst, v)
			return true
		}
	}
	return false
}

func (w *writer) called(c *converter, src string) string {
	switch {
	case c.method:
		if strings.HasPrefix(src, "*") || strings.HasPrefix(src, "&") {
			src = "(" + src + ")"
		}
		return src + "." + c.name + "()"
	case c.isMap:
		return w.of(c) + "[" + src + "]"
	}
	return w.of(c) + "(" + src + ")"
}

func (w *writer) of(c *converter) string {
	if q := w.qualifier(c.pkg); q != "" {
		return q + "." + c.name
	}
	return c.name
}

// lookup returns the conversion between two types that the package may use: one under use, one of the package, or one
// of a package that it imports or that declares one of the types.
func (w *writer) lookup(from, to types.Type) *converter {
	if _, basic := from.(*types.Basic); basic {
		if _, basic := to.(*types.Basic); basic {
			return nil
		}
	}
	for _, c := range w.t.used {
		if types.Identical(c.from, from) && types.Identical(c.to, to) {
			return c
		}
	}
	var far *converter
	for _, c := range w.known {
		if c == w.c && !isStruct(from) || !types.Identical(c.from, from) || !types.Identical(c.to, to) {
			continue
		}
		if c.pkg == w.t.pkg {
			return c
		}
		if far == nil && (c.method || 'A' <= c.name[0] && c.name[0] <= 'Z' && w.reaches(c.pkg, from, to)) {
			far = c
		}
	}
	if far != nil {
		return far
	}
	return w.byName(from, to)
}

func (w *writer) reaches(p *types.Package, from, to types.Type) bool {
	if p == packageOf(from) || p == packageOf(to) {
		return true
	}
	for _, path := range w.t.imports {
		if path == p.Path() {
			return true
		}
	}
	return false
}

// byName returns a hand-written method Proto of from, or a function of to's package with FromProto in its name.
func (w *writer) byName(from, to types.Type) *converter {
	if obj, _, _ := types.LookupFieldOrMethod(from, false, w.t.pkg, "Proto"); obj != nil {
		if sig, ok := obj.Type().(*types.Signature); ok && sig.Params().Len() == 0 && sig.Results().Len() == 1 &&
			types.Identical(sig.Results().At(0).Type(), to) {
			return &converter{pkg: obj.Pkg(), name: "Proto", method: true}
		}
	}
	p := packageOf(to)
	if p == nil {
		return nil
	}
	for _, name := range p.Scope().Names() {
		fn, ok := p.Scope().Lookup(name).(*types.Func)
		if !ok || !strings.Contains(name, "FromProto") || !fn.Exported() && p != w.t.pkg {
			continue
		}
		sig := fn.Type().(*types.Signature)
		if sig.Params().Len() == 1 && sig.Results().Len() == 1 && types.Identical(sig.Params().At(0).Type(), from) &&
			types.Identical(sig.Results().At(0).Type(), to) {
			return &converter{pkg: p, name: name}
		}
	}
	return nil
}

func packageOf(t types.Type) *types.Package {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return t.Obj().Pkg()
	case *types.Pointer:
		return packageOf(t.Elem())
	case *types.Slice:
		return packageOf(t.Elem())
	case *types.Map:
		return packageOf(t.Elem())
	}
	return nil
}

// leaf is a field of a struct or of a struct embedded in it.
type leaf struct {
	path, name string
	typ        types.Type
}

// is reports whether a path in a request names the field.
func (l leaf) is(path string) bool { return path == l.path || path == l.name }

// has reports whether a path in a request names a field of the field.
func (l leaf) has(path string) bool {
	return strings.HasPrefix(path, l.path+".") || strings.HasPrefix(path, l.name+".")
}

// leaves returns the fields of a struct that a package can use.
func (w *writer) leaves(t types.Type, prefix string) (out []leaf) {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s := t.Underlying().(*types.Struct)
	for i := range s.NumFields() {
		f := s.Field(i)
		if !f.Exported() && (f.Pkg() != w.t.pkg || isMessage(t)) {
			continue
		}
		if f.Embedded() && isStruct(f.Type()) && !isPointer(f.Type()) {
			out = append(out, w.leaves(f.Type(), prefix+f.Name()+".")...)
			continue
		}
		out = append(out, leaf{prefix + f.Name(), f.Name(), f.Type()})
	}
	return out
}

// match returns the field with the same name, apart from case, underscores and the unit of a duration.
func match(d leaf, src []leaf) (leaf, bool) {
	for _, s := range src {
		a, b := plain(d.name), plain(s.name)
		if a == b || isDuration(s.typ) && a == b+"ms" || isDuration(d.typ) && b == a+"ms" {
			return s, !isOneof(s.typ)
		}
	}
	return leaf{}, false
}

func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func isDuration(t types.Type) bool { return types.TypeString(t, nil) == "time.Duration" }

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// isStruct reports whether t is a struct or a pointer to one.
func isStruct(t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	_, ok := t.Underlying().(*types.Struct)
	return ok
}

// isMessage reports whether t is the struct of a message.
func isMessage(t types.Type) bool {
	obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, nil, "ProtoReflect")
	return obj != nil
}

func isText(t types.Type) bool {
	if b, ok := t.Underlying().(*types.Basic); ok {
		return b.Info()&types.IsString != 0
	}
	s, ok := t.Underlying().(*types.Slice)
	return ok && types.Identical(s.Elem(), types.Typ[types.Byte])
}

// nonzero returns the test of whether an expression of type t is set, "" if every value counts as set.
func nonzero(expr string, t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Pointer, *types.Interface, *types.Map:
		return expr + " != nil"
	case *types.Slice:
		return "len(" + expr + ") > 0"
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return expr + ` != ""`
		case u.Info()&types.IsNumeric != 0:
			return expr + " != 0"
		case u.Info()&types.IsBoolean != 0:
			return expr
		}
	}
	return ""
}

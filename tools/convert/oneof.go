package main

import (
	"fmt"
	"go/types"
	"sort"
	"strings"
)

// wrapper is a case of a oneof: the struct around its one field.
type wrapper struct {
	typ   *types.Named
	field *types.Var
}

// isOneof reports whether t is the type of a message's oneof.
func isOneof(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return false
	}
	_, ok = n.Underlying().(*types.Interface)
	return ok && strings.HasPrefix(n.Obj().Name(), "is")
}

// wrappers returns the cases of a oneof by their names.
func wrappers(oneof types.Type) (out []wrapper) {
	n := types.Unalias(oneof).(*types.Named)
	iface := n.Underlying().(*types.Interface)
	for _, name := range n.Obj().Pkg().Scope().Names() {
		t, ok := n.Obj().Pkg().Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		named, ok := t.Type().(*types.Named)
		if !ok {
			continue
		}
		s, ok := named.Underlying().(*types.Struct)
		if ok && s.NumFields() == 1 && types.Implements(types.NewPointer(named), iface) {
			out = append(out, wrapper{named, s.Field(0)})
		}
	}
	return out
}

// partner returns the other type's name for a case, from the options.
func (w *writer) partner(name string, of, other int) string {
	for _, n := range w.c.names {
		if n[of] == name {
			return n[other]
		}
	}
	return ""
}

// oneofCase reports whether a name is that of a case of a oneof of from.
func (w *writer) oneofCase(name string) bool {
	for _, s := range w.leaves(w.c.from, "") {
		if !isOneof(s.typ) {
			continue
		}
		for _, c := range wrappers(s.typ) {
			if c.field.Name() == name {
				return true
			}
		}
	}
	return false
}

// fillOneof sets a oneof to the first set field of in.
func (w *writer) fillOneof(d leaf, src []leaf, used map[string]bool) error {
	type pair struct {
		wrapper
		from leaf
		at   int
	}
	var pairs []pair
	for _, c := range wrappers(d.typ) {
		name := c.field.Name()
		if w.c.computed[name] == "-" {
			used[name] = true
			continue
		}
		want := leaf{name, name, c.field.Type()}
		if p := w.partner(name, 1, 0); p != "" {
			used[name], want.name = true, p
		}
		s, ok := match(want, src)
		if !ok {
			return fmt.Errorf("no field of %s stands for the case %s", w.typ(w.c.from), name)
		}
		for at := range src {
			if src[at].path == s.path {
				pairs = append(pairs, pair{c, s, at})
			}
		}
	}
	sort.Slice(pairs, func(i, j int) bool { return pairs[i].at < pairs[j].at })
	w.line("switch {")
	for _, p := range pairs {
		w.line("case %s:\nis := &%s{}", nonzero("in."+p.from.path, p.from.typ), w.typ(p.typ))
		if err := w.assign("is."+p.field.Name(), "in."+p.from.path, p.from.typ, p.field.Type()); err != nil {
			return err
		}
		w.line("out.%s = is", d.path)
	}
	w.line("}")
	return nil
}

// readOneofs sets the fields for the cases of in's oneofs.
func (w *writer) readOneofs(fields, src []leaf, used map[string]bool) error {
	left := map[string]bool{}
	for _, d := range fields {
		left[d.path] = true
	}
	for _, s := range src {
		if !isOneof(s.typ) {
			continue
		}
		w.line("switch is := in.%s.(type) {", s.path)
		for _, c := range wrappers(s.typ) {
			want := leaf{c.field.Name(), c.field.Name(), c.field.Type()}
			if p := w.partner(c.field.Name(), 0, 1); p != "" {
				used[p], want.name = true, p
			}
			d, ok := match(want, fields)
			if !ok {
				continue
			}
			delete(left, d.path)
			w.line("case *%s:", w.typ(c.typ))
			if err := w.assign("out."+d.path, "is."+c.field.Name(), c.field.Type(), d.typ); err != nil {
				return err
			}
		}
		w.line("}")
	}
	for _, path := range sorted(left) {
		return fmt.Errorf("field %s of %s has no source in %s: name it (A=%s), compute it (>%s=expr) or leave it (>%s=-)",
			path, w.typ(w.c.to), w.typ(w.c.from), path, path, path)
	}
	return nil
}

// addNamesakes asks for the conversions of the cases of o without a line of their own, each with the type of the same
// name beside the interface.
func (r *requests) addNamesakes(t *target, o *oneof) {
	iface, ok := o.value.Underlying().(*types.Interface)
	value, named := types.Unalias(o.value).(*types.Named)
	if !ok || !named {
		return // refused where it is written
	}
	w := &writer{requests: r, t: t}
	for _, l := range w.leaves(o.message, "") {
		if !isOneof(l.typ) {
			continue
		}
		for _, c := range wrappers(l.typ) {
			message, ok := c.field.Type().(*types.Pointer)
			if !ok || w.caseOf(iface, message, false) != nil {
				continue
			}
			name := types.Unalias(message.Elem()).(*types.Named).Obj().Name()
			of := value.Obj().Pkg().Scope().Lookup(name)
			if of == nil || !types.Implements(of.Type(), iface) {
				continue // refused where it is written
			}
			for _, c := range []*converter{
				{name: strings.ToLower(name[:1]) + name[1:], from: of.Type(), to: message},
				{name: "from" + name, from: message, to: of.Type()},
			} {
				c.pkg, c.at, c.computed, c.through = t.pkg, o.at, map[string]string{}, map[string]string{}
				t.wanted, r.known = append(t.wanted, c), append(r.known, c)
			}
		}
	}
}

// oneof writes the switches between a Go interface and a message's oneof.
func (w *writer) oneof(o *oneof) error {
	w.c = &converter{from: o.value, to: o.message}
	iface, ok := o.value.Underlying().(*types.Interface)
	if !ok {
		return fmt.Errorf("%s is no interface", w.typ(o.value))
	}
	var at leaf
	for _, l := range w.leaves(o.message, "") {
		if isOneof(l.typ) {
			at = l
		}
	}
	if at.path == "" {
		return fmt.Errorf("%s has no oneof", w.typ(o.message))
	}
	message := w.typ(o.message)
	w.line("\n// %s returns the message for a value, nil for one of an unknown type.", o.name)
	w.line("func %s(in %s) %s {\nswitch in := in.(type) {", o.name, w.typ(o.value), message)
	for _, c := range wrappers(at.typ) {
		conv := w.caseOf(iface, c.field.Type(), false)
		if conv == nil {
			return fmt.Errorf("no type with the interface %s converts to %s", w.typ(o.value), w.typ(c.field.Type()))
		}
		w.line("case %s:\nreturn &%s{%s: &%s{%s: %s}}",
			w.typ(conv.from), message[1:], at.path, w.typ(c.typ), c.field.Name(), w.called(conv, "in"))
	}
	w.line("}\nreturn nil\n}\n")
	w.line("// %s is the reverse of %s, nil for a case that this build does not know.", o.reverse, o.name)
	w.line("func %s(in %s) %s {\nswitch in := in.Get%s().(type) {", o.reverse, message, w.typ(o.value), at.path)
	for _, c := range wrappers(at.typ) {
		conv := w.caseOf(iface, c.field.Type(), true)
		if conv == nil {
			return fmt.Errorf("%s converts to no type with the interface %s", w.typ(c.field.Type()), w.typ(o.value))
		}
		w.line("case *%s:\nreturn %s", w.typ(c.typ), w.called(conv, "in."+c.field.Name()))
	}
	w.line("}\nreturn nil\n}")
	return nil
}

// caseOf returns the conversion between a message and a type with an interface.
func (w *writer) caseOf(iface *types.Interface, message types.Type, reverse bool) *converter {
	for _, list := range [][]*converter{w.t.used, w.known} {
		for _, c := range list {
			value, other := c.from, c.to
			if reverse {
				value, other = other, value
			}
			if types.Identical(other, message) && types.Implements(value, iface) &&
				(c.pkg == w.t.pkg || w.reaches(c.pkg, value, value)) {
				return c
			}
		}
	}
	return nil
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

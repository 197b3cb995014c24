package main

import (
	"go/ast"
	"go/types"
)

// sources finds the values that a function's copies are read from. A local variable stands for the values of its
// expression, so an element of a list, a field that is a struct, and a checked type belong to their parameter.
type sources struct {
	info  *types.Info
	local map[types.Object]map[types.Object]bool
	read  map[types.Object]bool // the values with at least one copied field
	set   map[types.Object]bool // the parameters and receivers with an assigned field
}

func newSources(info *types.Info, fn *ast.FuncDecl) *sources {
	s := &sources{
		info: info, local: map[types.Object]map[types.Object]bool{}, read: map[types.Object]bool{},
		set: map[types.Object]bool{},
	}
	ast.Inspect(fn.Body, s.bind)
	return s
}

// bind notes the values of the variables that a statement declares.
func (s *sources) bind(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			s.declare(left, n.Rhs[min(i, len(n.Rhs)-1)])
		}
	case *ast.RangeStmt:
		if n.Key != nil {
			s.declare(n.Key, n.X)
		}
		if n.Value != nil {
			s.declare(n.Value, n.X)
		}
	case *ast.TypeSwitchStmt:
		if a, ok := n.Assign.(*ast.AssignStmt); ok {
			for _, clause := range n.Body.List {
				s.add(s.info.Implicits[clause], a.Rhs[0])
			}
		}
	}
	return true
}

func (s *sources) declare(left, value ast.Expr) {
	if name, ok := left.(*ast.Ident); ok {
		s.add(s.info.Defs[name], value)
	}
}

func (s *sources) add(local types.Object, value ast.Expr) {
	if local == nil {
		return
	}
	if s.local[local] == nil {
		s.local[local] = map[types.Object]bool{}
	}
	for of := range s.of(value) {
		s.local[local][of] = true
	}
}

// of returns the parameters, receivers and package variables that an expression reads.
func (s *sources) of(e ast.Expr) map[types.Object]bool {
	found := map[types.Object]bool{}
	ast.Inspect(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := s.info.Uses[name].(*types.Var)
		if !ok || v.IsField() {
			return true
		}
		of, local := s.local[v]
		if !local {
			found[v] = true
		}
		for o := range of {
			found[o] = true
		}
		return true
	})
	return found
}

// copied notes that a field is copied from value.
func (s *sources) copied(value ast.Expr) {
	for of := range s.of(value) {
		s.read[of] = true
	}
}

// changes notes an assignment to a field.
func (s *sources) changes(field *ast.SelectorExpr) {
	if name, ok := field.X.(*ast.Ident); ok {
		s.set[s.info.Uses[name]] = true
	}
}

// changed reports whether the function assigns to a value whose fields it copies.
func (s *sources) changed() bool {
	for of := range s.read {
		if s.set[of] {
			return true
		}
	}
	return false
}

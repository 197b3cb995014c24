package shellguard

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxFolders is the maximum number of possible folders of one command.
const maxFolders = 16

// folders follows cd through a text. It records the possible folders of each statement: there are several if a cd may
// have failed or may not have run. An unknown folder is "?".
type folders struct {
	home string
	at   map[*syntax.Stmt][]string
	// been are all folders that a cd, pushd or popd may have left, for cd - and popd.
	been []string
}

// follow records the possible folders of a statement. It returns the shell's possible folders after it: ok after
// success, failed after a failure.
func (f *folders) follow(stmt *syntax.Stmt, in []string) (ok, failed []string) {
	f.at[stmt] = in
	ok, failed = f.command(stmt, in)
	switch {
	case stmt.Background || stmt.Coprocess:
		return in, in
	case stmt.Negated:
		return failed, ok
	}
	return ok, failed
}

func (f *folders) command(stmt *syntax.Stmt, in []string) (ok, failed []string) {
	for _, r := range stmt.Redirs {
		f.inside(r, in)
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		f.inside(c, in)
		return f.moved(c, in), in
	case *syntax.BinaryCmd:
		switch c.Op {
		case syntax.AndStmt:
			ok, failed = f.follow(c.X, in)
			then, failing := f.follow(c.Y, ok)
			return then, union(failed, failing)
		case syntax.OrStmt:
			ok, failed = f.follow(c.X, in)
			then, failing := f.follow(c.Y, failed)
			return union(ok, then), failing
		}
		f.follow(c.X, in)
		f.follow(c.Y, in)
	case *syntax.Block:
		return f.list(c.Stmts, in)
	case *syntax.Subshell:
		f.list(c.Stmts, in)
	case *syntax.IfClause:
		out := f.branch(c, in)
		return out, out
	case *syntax.WhileClause:
		ok, failed = f.list(c.Cond, in)
		if c.Until {
			ok, failed = failed, ok
		}
		out := union(failed, union(f.list(c.Do, ok)))
		return out, out
	case *syntax.ForClause:
		f.inside(c.Loop, in)
		out := union(in, union(f.list(c.Do, in)))
		return out, out
	case *syntax.CaseClause:
		f.inside(c.Word, in)
		out := in
		for _, item := range c.Items {
			for _, pattern := range item.Patterns {
				f.inside(pattern, in)
			}
			out = union(out, union(f.list(item.Stmts, in)))
		}
		return out, out
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return f.follow(c.Stmt, in)
		}
	case nil:
	default:
		f.inside(c, in)
	}
	return in, in
}

// list follows consecutive statements.
func (f *folders) list(stmts []*syntax.Stmt, in []string) (ok, failed []string) {
	ok, failed = in, in
	for _, stmt := range stmts {
		ok, failed = f.follow(stmt, union(ok, failed))
	}
	return ok, failed
}

func (f *folders) branch(c *syntax.IfClause, in []string) []string {
	ok, failed := f.list(c.Cond, in)
	out := union(f.list(c.Then, ok))
	if c.Else != nil {
		return union(out, f.branch(c.Else, failed))
	}
	return union(out, failed)
}

// inside records the statements inside a node: substitutions, and bodies of functions, which run later.
func (f *folders) inside(node syntax.Node, in []string) {
	syntax.Walk(node, func(n syntax.Node) bool {
		if stmt, is := n.(*syntax.Stmt); is {
			f.follow(stmt, in)
			return false
		}
		return true
	})
}

// moved returns the shell's possible folders after a successful command.
func (f *folders) moved(c *syntax.CallExpr, in []string) []string {
	var list []word
	for _, w := range c.Args {
		list = append(list, words(w)...)
	}
	for len(list) > 0 && list[0].known && (list[0].text == "command" || list[0].text == "builtin") {
		list = list[1:]
	}
	if len(list) == 0 || !list[0].known || list[0].text != "cd" && list[0].text != "pushd" && list[0].text != "popd" {
		return in
	}
	f.been = union(f.been, in)
	popped := list[0].text == "popd"
	for list = list[1:]; len(list) > 0 && list[0].known && len(list[0].text) > 1 &&
		list[0].text[0] == '-'; list = list[1:] {
	}
	switch {
	case popped, len(list) > 0 && list[0].known && list[0].text == "-":
		return f.been
	case len(list) == 0:
		return []string{f.home}
	}
	return enter(in, list[0], f.home)
}

// enter returns the possible folders after cd to the word w from the folders in.
func enter(in []string, w word, home string) []string {
	name := w.path
	if w.known {
		name = w.text
	}
	if name == "" {
		name = "?"
		if at := strings.LastIndexByte(w.lead, '/'); at > 0 {
			name = w.lead[:at]
		}
	}
	if name = atHome(name, home); path.IsAbs(name) {
		return []string{path.Clean(name)}
	}
	var out []string
	for _, dir := range in {
		out = union(out, []string{path.Join(dir, name)})
	}
	return out
}

// union returns the folders of a and b, each once, at most maxFolders.
func union(a, b []string) []string {
	out := slices.Clip(a)
	for _, dir := range b {
		if !slices.Contains(out, dir) && len(out) < maxFolders {
			out = append(out, dir)
		}
	}
	return out
}

package main

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// testTime refuses time.Sleep in tests that do not import testing/synctest, because tests should wait for events. It
// refuses context.Background and context.TODO in tests, because t.Context ends with the test. It allows them as the
// parent of a context that the test ends itself, and in code that runs after the end of t.Context: in t.Cleanup and
// defer.
var testTime = &analysis.Analyzer{
	Name: "testtime",
	Doc:  "tests wait on events and end with their context",
	Run:  runTestTime,
}

func runTestTime(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		if !strings.HasSuffix(pass.Fset.Position(file.Pos()).Filename, "_test.go") {
			continue
		}
		fake := importsPath(file, "testing/synctest")
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := calledFunc(pass, call); {
			case name == "time.Sleep" && !fake:
				pass.Reportf(call.Pos(), "wait on an event, or run in a synctest bubble, instead of time.Sleep")
			case (name == "context.Background" || name == "context.TODO") && inTest(pass, stack) && !inCleanup(stack) &&
				!derived(pass, stack):
				pass.Reportf(call.Pos(), "use t.Context instead of %s", name)
			}
			return true
		})
	}
	return nil, nil
}

func importsPath(file *ast.File, path string) bool {
	for _, i := range file.Imports {
		if i.Path.Value == `"`+path+`"` {
			return true
		}
	}
	return false
}

// calledFunc returns package.Name of a called package-level function, or "".
func calledFunc(pass *analysis.Pass, call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	fn, ok := pass.TypesInfo.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Signature().Recv() != nil {
		return ""
	}
	return fn.Pkg().Path() + "." + fn.Name()
}

// inTest reports whether an enclosing function has a *testing.T, *testing.B or testing.TB with a context.
func inTest(pass *analysis.Pass, stack []ast.Node) bool {
	for _, n := range stack {
		var params *ast.FieldList
		switch f := n.(type) {
		case *ast.FuncDecl:
			params = f.Type.Params
		case *ast.FuncLit:
			params = f.Type.Params
		default:
			continue
		}
		for _, p := range params.List {
			switch t := types.TypeString(pass.TypesInfo.TypeOf(p.Type), nil); t {
			case "*testing.T", "*testing.B", "testing.TB":
				return true
			}
		}
	}
	return false
}

// derived reports whether the innermost call is context.WithCancel or a similar function.
func derived(pass *analysis.Pass, stack []ast.Node) bool {
	call, ok := stack[len(stack)-1].(*ast.CallExpr)
	return ok && strings.HasPrefix(calledFunc(pass, call), "context.With")
}

// inCleanup reports whether the node is inside a function passed to Cleanup or after a defer, where t.Context has ended
// or may have.
func inCleanup(stack []ast.Node) bool {
	for _, n := range stack {
		switch n := n.(type) {
		case *ast.DeferStmt:
			return true
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Cleanup" {
				return true
			}
		}
	}
	return false
}

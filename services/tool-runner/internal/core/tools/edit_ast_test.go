//go:build cgo

package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
)

type editAstAnswer struct {
	Changes []struct {
		Path, Before, After string
		ByteStart           int `json:"byte_start"`
		ByteEnd             int `json:"byte_end"`
		StartLine           int `json:"start_line"`
		StartColumn         int `json:"start_column"`
		EndLine             int `json:"end_line"`
		EndColumn           int `json:"end_column"`
	}
	FileChanges []struct {
		Path  string
		Count int
	} `json:"file_changes"`
	TotalReplacements int  `json:"total_replacements"`
	FilesTouched      int  `json:"files_touched"`
	FilesSearched     int  `json:"files_searched"`
	Applied           bool `json:"applied"`
	LimitReached      bool `json:"limit_reached"`
	Diff              string
	Truncated         bool
	FilesSkipped      int                              `json:"files_skipped"`
	ParseErrors       []struct{ Path, Message string } `json:"parse_errors"`
}

// log is the rewrite of the specification's example.
var log = map[string]string{"console.log($MSG)": "logger.debug($MSG)"}

func rewriteProject(t testing.TB, change ...func(*bench)) *bench {
	b := newBench(t, change...)
	b.write("src/a.ts", "é();\n  console.log(\"a\");\nconsole.log( \"b\" );\n")
	b.write("src/b.ts", "console.log(x)\n")
	b.write("src/c.tsx", "console.log(x)\n")
	return b
}

func (b *bench) rewrite(p in) editAstAnswer {
	b.t.Helper()
	var r editAstAnswer
	b.ok("edit.ast", p, &r)
	return r
}

// A dry run, the default, shows all changes and makes none (T-EDIT-AST-01, -06, -07, TN-SEARCH-6).
func TestEditAstShowsFirst(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	r := b.rewrite(in{"rewrites": log, "lang": "typescript"})
	if r.Applied || r.TotalReplacements != 3 || r.FilesTouched != 2 || r.FilesSearched != 2 || r.LimitReached ||
		len(r.ParseErrors) != 0 {
		t.Errorf("%+v", r)
	}
	c := r.Changes[0]
	if c.Path != "./src/a.ts" || c.Before != `console.log("a")` || c.After != `logger.debug("a")` || c.ByteStart != 8 ||
		c.ByteEnd != 24 ||
		c.StartLine != 2 || c.StartColumn != 2 || c.EndLine != 2 || c.EndColumn != 18 {
		t.Errorf("%+v", c)
	}
	want := "--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,3 +1,3 @@\n é();\n-  console.log(\"a\");\n+  " +
		"logger.debug(\"a\");\n-console.log( \"b\" );\n+logger.debug(\"b\");\n"
	if !strings.HasPrefix(r.Diff, want) {
		t.Errorf("diff %q", r.Diff)
	}
	if b.content("src/b.ts") != "console.log(x)\n" {
		t.Error("a dry run wrote")
	}
	// The matches equal those of search.ast (T-SEARCH-AST-09).
	var s astResult
	b.ok("search.ast", in{"pattern": "console.log($MSG)", "lang": "typescript"}, &s)
	for i, m := range s.Matches {
		if *m.Content != r.Changes[i].Before {
			t.Errorf("search.ast finds %q, edit.ast %q", *m.Content, r.Changes[i].Before)
		}
	}
}

// Without a dry run exactly the named files are written. A caller that had read them before need not read them again
// (T-EDIT-AST-08, -09, -10, -18, TN-SEARCH-7, -8, C30).
func TestEditAstApplies(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	if err := os.Chmod(filepath.Join(b.root, "src/b.ts"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ok("file.read", in{"path": "src/b.ts"}, nil)
	if r := b.rewrite(in{"rewrites": log, "path": "src/b.ts", "dry_run": false}); !r.Applied || r.FilesTouched != 1 {
		t.Errorf("%+v", r)
	}
	if got := b.content("src/b.ts"); got != "logger.debug(x)\n" {
		t.Errorf("wrote %q", got)
	}
	if info, err := os.Stat(filepath.Join(b.root, "src/b.ts")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.ok("edit.text", in{"path": "src/b.ts", "old_string": "x", "new_string": "y"}, nil)
	o := b.ok("edit.ast", in{"rewrites": log, "path": "src", "glob": "*.ts", "dry_run": false}, nil)
	if b.content("src/a.ts") != "é();\n  logger.debug(\"a\");\nlogger.debug(\"b\");\n" ||
		b.content("src/c.tsx") != "console.log(x)\n" {
		t.Errorf("a.ts %q, c.tsx %q", b.content("src/a.ts"), b.content("src/c.tsx"))
	}
	edited := 0
	for _, record := range o.Records {
		if record.Type == audit.FileEdited {
			edited++
		}
	}
	if edited != 1 {
		t.Errorf("%d records of edits", edited)
	}
	// a.ts was not read: a rewrite of a file does not count as reading it.
	b.fails(fault.FileNotRead, "edit.text", in{"path": "src/a.ts", "old_string": "a", "new_string": "b"})
	if r := b.rewrite(in{"rewrites": log, "path": "src/b.ts", "dry_run": false}); r.Applied || r.TotalReplacements != 0 {
		t.Errorf("nothing to do: %+v", r)
	}
}

// Impossible rewrites are refused before any file changes (T-EDIT-AST-02, -05, -11, -14,
// TN-SEARCH-9, -10, -13, T-EDIT-AST-03).
func TestEditAstRefusals(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	b.write("mixed/a.ts", "f()\n")
	b.write("mixed/b.js", "f()\n")
	b.write("text/a.txt", "f()\n")
	for _, c := range []struct {
		code   fault.Code
		params in
		says   string
	}{
		{fault.InvalidParams, in{"rewrites": map[string]string{}}, "rewrites"},
		{fault.InvalidParams, in{}, "rewrites"},
		{fault.InvalidParams, in{"rewrites": log, "path": "mixed"}, ".js, .ts"},
		{fault.InvalidParams, in{"rewrites": log, "path": "text/a.txt"}, ".txt"},
		{fault.InvalidParams, in{"rewrites": log, "path": "text"}, "no source file"},
		{fault.InvalidParams, in{"rewrites": log, "path": "../../etc"}, "outside"},
		{fault.InvalidParams, in{"rewrites": log, "path": "src", "glob": "["}, "glob"},
		{fault.InvalidPattern, in{"rewrites": map[string]string{"foo(": "x"}, "lang": "typescript"}, "such as"},
		{fault.InvalidPattern, in{"rewrites": map[string]string{"foo($A)": "bar($B)"}, "lang": "typescript"}, "captures $A"},
		{fault.FileNotFound, in{"rewrites": log, "path": "nope.ts", "lang": "typescript"}, "nope.ts"},
	} {
		if f := b.fails(c.code, "edit.ast", c.params); !strings.Contains(f.Error(), c.says) {
			t.Errorf("%v: %v", c.params, f)
		}
	}
	b.fails(fault.ToolNotFound, "search.ast_replace", in{"rewrites": log})
}

// Without lang, the language is the common language of all files (T-EDIT-AST-04).
func TestEditAstInfersTheLanguage(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	if r := b.rewrite(in{"rewrites": log, "path": "src", "glob": "*.ts"}); r.TotalReplacements != 3 {
		t.Errorf("%+v", r)
	}
	if r := b.rewrite(in{"rewrites": log, "path": "src/c.tsx"}); r.TotalReplacements != 1 {
		t.Errorf("%+v", r)
	}
}

// Limits cut the answer in the order of the paths (T-EDIT-AST-12, -13, TN-SEARCH-11, -12).
func TestEditAstLimits(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	if r := b.rewrite(in{
		"rewrites": log, "lang": "typescript", "max_replacements": 1, "dry_run": false,
	}); r.TotalReplacements != 1 || !r.LimitReached {
		t.Errorf("%+v", r)
	}
	if got := b.content("src/a.ts"); got != "é();\n  logger.debug(\"a\");\nconsole.log( \"b\" );\n" {
		t.Errorf("a.ts %q", got)
	}
	if r := b.rewrite(in{"rewrites": log, "lang": "typescript", "max_files": 1, "dry_run": false}); r.FilesTouched != 1 ||
		!r.LimitReached {
		t.Errorf("%+v", r)
	}
	if b.content("src/b.ts") != "console.log(x)\n" {
		t.Error("the second file was changed")
	}
	if r := b.rewrite(in{"rewrites": log, "lang": "typescript", "max_files": 1, "max_replacements": 1}); r.LimitReached {
		t.Errorf("a limit that is just enough: %+v", r)
	}
}

// A file that does not parse is left out and named. If it is the only file, the call fails (T-EDIT-AST-15,
// TN-SEARCH-14).
func TestEditAstBrokenFiles(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	b.write("src/broken.ts", "function ( { console.log(1) \n")
	b.write("src/latin.ts", "console.log('\xe9')\n")
	r := b.rewrite(in{"rewrites": log, "lang": "typescript", "dry_run": false})
	if !r.Applied || r.FilesTouched != 2 || len(r.ParseErrors) != 2 || r.ParseErrors[0].Path != "./src/broken.ts" ||
		!strings.Contains(r.ParseErrors[0].Message, "line 1") || !strings.Contains(r.ParseErrors[1].Message, "UTF-8") {
		t.Errorf("%+v", r)
	}
	if b.content("src/broken.ts") != "function ( { console.log(1) \n" {
		t.Error("the broken file was changed")
	}
	b.fails(fault.InvalidParams, "edit.ast", in{"rewrites": log, "path": "src/broken.ts"})
}

// The rewrite of a folder leaves out files that need the operator's approval. If such a file is named by its path, the
// operator is asked, and the preview shows the change (T-CAT-04).
func TestEditAstLeavesSystemPathsAlone(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t, func(b *bench) { b.system = []string{".kaged"} })
	b.write(".kaged/x.ts", "console.log(x)\n")
	b.write(".kaged/quiet.ts", "f(x)\n")
	for _, dry := range []bool{true, false} {
		r := b.rewrite(in{"rewrites": log, "lang": "typescript", "dry_run": dry})
		if r.FilesTouched != 2 || len(r.ParseErrors) != 1 || r.ParseErrors[0].Path != "./.kaged/x.ts" ||
			!strings.Contains(r.ParseErrors[0].Message, "system path") {
			t.Errorf("%+v", r)
		}
	}
	for _, path := range []string{".kaged", ".kaged/x.ts", "src/../.kaged"} {
		params := in{"rewrites": log, "lang": "typescript", "path": path, "dry_run": false}
		o, err := b.do(t.Context(), "edit.ast", params)
		if err != nil || o.Approval == nil || len(o.Approval.Reasons) != 1 ||
			!strings.Contains(o.Approval.Preview, "+logger.debug(x)") {
			t.Fatalf("%s: %+v %v", path, o, err)
		}
		if got := b.content(".kaged/x.ts"); got != "console.log(x)\n" {
			t.Fatalf("%s: unasked, it holds %q", path, got)
		}
		b.rewrite(in{"rewrites": log, "lang": "typescript", "path": path})
	}
}

// A rewrite of more text than the memory limit reads the files again, and leaves out changed files. The answer has a
// limited length, and counts all changes.
func TestEditAstOfMoreThanIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.PatchBytes, b.limits.Search.OutputBytes = 5000, 2000 })
	rest := "// " + strings.Repeat("x", 200) + "\n"
	for i := range 100 {
		b.write(fmt.Sprintf("f%02d.ts", i), "console.log(x)\nconsole.log(y)\n"+rest)
		b.write(fmt.Sprintf("g%02d.ts", i), "console.log( {\n")
	}
	for _, dry := range []bool{true, false} {
		r := b.rewrite(in{"rewrites": log, "lang": "typescript", "dry_run": dry})
		if r.Applied == dry || r.FilesTouched != 100 || r.TotalReplacements != 200 || r.FilesSkipped != 100 || !r.Truncated {
			t.Errorf("%+v", r)
		}
		if n := len(r.Changes); n == 0 || n > 12 || r.Changes[0].Path != "./f00.ts" || r.Changes[1].StartLine != 2 {
			t.Errorf("%d changes: %+v", n, r.Changes)
		}
		if len(r.FileChanges) < 10 || len(r.FileChanges) > 50 || len(r.ParseErrors) < 10 || len(r.ParseErrors) > 50 {
			t.Errorf("%d files and %d errors are shown", len(r.FileChanges), len(r.ParseErrors))
		}
		if !strings.Contains(r.Diff, "+logger.debug(y)") {
			t.Errorf("diff %s", r.Diff)
		}
	}
	if b.content("f99.ts") != "logger.debug(x)\nlogger.debug(y)\n"+rest {
		t.Errorf("f99.ts holds %q", b.content("f99.ts"))
	}
}

// In a cage with read access only, a rewrite can be previewed but not made (T-EDIT-AST-16).
func TestEditAstInACage(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	b.write("lib/x.ts", "console.log(x)\n")
	b.write("out/x", "")
	b.from.Agent, b.from.Cage = "primary.subagents.x", &dsl.Cage{
		FS: []dsl.Mount{{Mode: "ro", Path: "./src"}, {Mode: "rw", Path: "./out"}},
	}
	r := b.rewrite(in{"rewrites": log, "lang": "typescript"})
	for _, c := range r.Changes {
		if strings.HasPrefix(c.Path, "./lib") {
			t.Errorf("quoted %s", c.Path)
		}
	}
	if r.TotalReplacements != 3 {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{".", "src", "src/a.ts"} {
		b.fails(fault.CapabilityDenied, "edit.ast", in{"rewrites": log, "lang": "typescript", "path": path, "dry_run": false})
	}
	b.fails(fault.CapabilityDenied, "edit.ast", in{"rewrites": log, "lang": "typescript", "path": "lib"})
}

// If the cage grants a single file, a rewrite keeps that file and its inode, even if the file was found below a folder,
// because the cage mounts the file itself and not its name.
func TestEditAstKeepsGrantedFiles(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t)
	b.from.Agent, b.from.Cage = "primary.subagents.x", &dsl.Cage{FS: []dsl.Mount{
		{Mode: "rw", Path: "./"}, {Mode: "ro", Path: "./src"}, {Mode: "rw", Path: "./src/b.ts"},
	}}
	before, err := os.Stat(filepath.Join(b.root, "src/b.ts"))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.rewrite(in{"rewrites": log, "lang": "typescript", "dry_run": false}); !r.Applied || r.FilesTouched != 1 {
		t.Errorf("%+v", r)
	}
	after, err := os.Stat(filepath.Join(b.root, "src/b.ts"))
	if err != nil || !os.SameFile(before, after) || b.content("src/b.ts") != "logger.debug(x)\n" {
		t.Errorf("another file holds %q, %v", b.content("src/b.ts"), err)
	}
}

// The approval's preview shows exactly the change that will be made, without the cage's read-only files.
func TestEditAstAsksAboutWhatItWillDo(t *testing.T) {
	t.Parallel()
	b := rewriteProject(t, func(b *bench) { b.system = []string{"src"} })
	b.from.Agent, b.from.Cage = "primary.subagents.x", &dsl.Cage{
		FS: []dsl.Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "./src/a.ts"}},
	}
	o, err := b.do(t.Context(), "edit.ast", in{"rewrites": log, "lang": "typescript", "path": "src", "dry_run": false})
	if err != nil || o.Approval == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	if p := o.Approval.Preview; !strings.Contains(p, "b/src/b.ts") || strings.Contains(p, "a.ts") {
		t.Errorf("asked about %s", p)
	}
}

// Of nested matches one is changed, and rewrites apply in the order in which they are written (T-EDIT-AST-17).
func TestEditAstNeverOverlaps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a.ts", "f(f(1));\ng(f(2));\n")
	b.rewrite(in{"rewrites": map[string]string{"f($A)": "h($A)"}, "dry_run": false})
	if got := b.content("a.ts"); got != "h(f(1));\ng(h(2));\n" {
		t.Errorf("wrote %q", got)
	}
	b.write("b.js", "a(b(c(1)));\n")
	o, err := b.do(t.Context(), "edit.ast", in{
		"path": "b.js", "dry_run": false, "rewrites": ordered(`{"b($X)": "B($X)", "a($X)": "A($X)", "c($X)": "C($X)"}`),
	})
	if err != nil || o.Fault != nil || b.content("b.js") != "a(B(c(1)));\n" {
		t.Errorf("%v %v %q", err, o.Fault, b.content("b.js"))
	}
	if f := b.fails(fault.InvalidParams, "edit.ast", in{
		"path": "b.js", "rewrites": ordered(`{"a": "b", "a": "c"}`),
	}); !strings.Contains(f.Error(), "twice") {
		t.Error(f)
	}
}

// ordered is JSON with significant order.
type ordered string

func (o ordered) MarshalJSON() ([]byte, error) { return []byte(o), nil }

// The layout of a file is kept: tabs, carriage returns, the byte order mark, text in strings.
func TestEditAstKeepsLayout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a.go", "package a\n\nfunc f() {\n\tif x {\n\t\tg(func() {\n\t\t\ta()\n\n\t\t\tb(`raw\n  "+
		"text`)\n\t\t})\n\t}\n}\n")
	b.rewrite(in{
		"dry_run": false, "rewrites": map[string]string{"g($F)": "if ok {\n  h(\n    $F,\n  )\n}"}, "path": "a.go",
	})
	want := "package a\n\nfunc f() {\n\tif x {\n\t\tif ok {\n\t\t\th(\n\t\t\t\tfunc() " +
		"{\n\t\t\t\t\ta()\n\n\t\t\t\t\tb(`raw\n  text`)\n\t\t\t\t},\n\t\t\t)\n\t\t}\n\t}\n}\n"
	if d := cmp.Diff(want, b.content("a.go")); d != "" {
		t.Error(d)
	}
	b.write("b.js", "\ufefff(1);\r\nf(2);\r\n")
	b.rewrite(in{"dry_run": false, "rewrites": map[string]string{"f($A)": "g(\n\t$A\n)"}, "path": "b.js"})
	if got := b.content("b.js"); got != "\ufeffg(\r\n  1\r\n);\r\ng(\r\n  2\r\n);\r\n" {
		t.Errorf("wrote %q", got)
	}
}

// A replacement with a very large result is refused before it takes the memory. One such file is left out; many such
// files make the call fail.
func TestEditAstBounds(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.EditFile, b.limits.PatchBytes = 2<<20, 3<<20 })
	big := "f(\"" + strings.Repeat("x", 100<<10) + "\")\n"
	b.write("one/a.ts", big)
	grow := func(n int) map[string]string { return map[string]string{"f($A)": strings.Repeat("$A\n", n)} }
	if f := b.fails(fault.InvalidParams, "edit.ast", in{"rewrites": grow(16_000), "path": "one"}); !strings.Contains(f.Msg,
		"too large") {
		t.Error(f)
	}
	b.fails(fault.InvalidPattern, "edit.ast", in{"rewrites": grow(100_000), "path": "one"})
	if r := b.rewrite(in{"rewrites": grow(15), "path": "one"}); r.TotalReplacements != 1 {
		t.Errorf("%+v", r)
	}
	b.write("one/b.ts", big)
	b.write("one/c.ts", big)
	b.fails(fault.FileTooLarge, "edit.ast", in{"rewrites": grow(15), "path": "one", "dry_run": false})
	if b.content("one/a.ts") != big {
		t.Error("a refused rewrite was made")
	}
}

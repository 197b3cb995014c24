package core_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/services/lsp-pool/internal/core"
)

// D1: a server has a cage if its caller has one, if another agent of the project has one, if its caller cannot run
// commands, or if its program, or a script it runs, is a file of the project (with links followed).
func TestCaged(t *testing.T) {
	t.Parallel()
	root, elsewhere := real(t, t.TempDir()), real(t, t.TempDir())
	for path, link := range map[string]string{
		root + "/bin/server": "", root + "/server.js": "", elsewhere + "/outside": "", elsewhere + "/script.js": "",
		elsewhere + "/inside": root + "/bin/server", elsewhere + "/linked.js": root + "/server.js",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link != "" {
			err = os.Symlink(link, path)
		} else {
			err = os.WriteFile(path, nil, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(root+"/start", 0o755); err != nil {
		t.Fatal(err)
	}
	plain := []string{"outside"}
	for name, tt := range map[string]struct {
		caging  core.Caging
		view    core.View
		command []string
		path    string
		want    bool
	}{
		"a program elsewhere":                 {command: plain},
		"a caged caller":                      {view: core.View{Cage: &dsl.Cage{}}, command: plain, want: true},
		"a caged agent beside the caller":     {view: core.View{ProjectCaged: true}, command: plain, want: true},
		"a caller without commands":           {view: core.View{NoCommands: true}, command: plain, want: true},
		"a program of the project":            {command: []string{root + "/bin/server"}, want: true},
		"the same by a relative path":         {command: []string{"./bin/server"}, want: true},
		"the same through a link":             {command: []string{elsewhere + "/inside"}, want: true},
		"the same on PATH":                    {command: []string{"server"}, path: root + "/bin", want: true},
		"a link on PATH":                      {command: []string{"inside"}, want: true},
		"a relative folder on PATH":           {command: []string{"server"}, path: "bin", want: true},
		"a program that is missing":           {command: []string{"missing"}},
		"a script of the project":             {command: []string{"outside", root + "/server.js"}, want: true},
		"the same by its name alone":          {command: []string{"outside", "server.js"}, want: true},
		"the same behind a flag":              {command: []string{"outside", "--require=./server.js"}, want: true},
		"a link to it":                        {command: []string{"outside", elsewhere + "/linked.js"}, want: true},
		"a script elsewhere":                  {command: []string{"outside", elsewhere + "/script.js"}},
		"a word that is a folder's name, too": {command: []string{"outside", "start", "--stdio"}},
		"always":                              {caging: core.CageAlways, command: plain, want: true},
		"never": {
			caging: core.CageNever, view: core.View{ProjectCaged: true, NoCommands: true}, command: []string{"./bin/server"},
		},
		"never, and a caged caller": {
			caging: core.CageNever, view: core.View{Cage: &dsl.Cage{}}, command: plain, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := tt.path
			if path == "" {
				path = elsewhere
			}
			o := core.Options{
				Caging: tt.caging, LookupEnv: func(string) (string, bool) { return "", false },
				Environment: func(bool, map[string]string) map[string]string { return map[string]string{"PATH": path} },
			}
			tt.view.Root = root
			if got := o.Caged(tt.view, core.Entry{Commands: [][]string{tt.command}}); got != tt.want {
				t.Errorf("caged is %t", got)
			}
		})
	}
}

// A built-in server is started in the nearest folder with a marker around the file, below the root and not behind a
// link. A server that an operator or a project names is started in the root, as its command may be relative to that.
func TestFolderOfAServer(t *testing.T) {
	t.Parallel()
	root, elsewhere := real(t, t.TempDir()), real(t, t.TempDir())
	for _, path := range []string{root + "/go.mod", root + "/a/go.mod", root + "/a/b/x.go", elsewhere + "/go.mod"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, root+"/link"); err != nil {
		t.Fatal(err)
	}
	named := core.With(core.Builtin(), map[string]core.Override{"go": {Command: []string{"./bin/gopls"}}})
	for _, tt := range []struct {
		list             []core.Entry
		path, file, want string
	}{
		{core.Builtin(), "/usr/bin", "/a/b/x.go", root + "/a"},
		{core.Builtin(), "/usr/bin", "/x.go", root},
		{core.Builtin(), "/usr/bin", "/c/x.go", root},
		{core.Builtin(), "/usr/bin", "/link/x.go", root},
		{core.Builtin(), "/usr/bin:bin", "/a/b/x.go", root},
		{named, "/usr/bin", "/a/b/x.go", root},
	} {
		o := core.Options{
			LookupEnv:   func(string) (string, bool) { return "", false },
			Environment: func(bool, map[string]string) map[string]string { return map[string]string{"PATH": tt.path} },
		}
		v := core.View{Root: root}
		e, _ := v.Entry(tt.list, "go")
		if got := o.Dir(v, e, root+tt.file); got != tt.want {
			t.Errorf("%s with PATH %s: %s, want %s", tt.file, tt.path, got, tt.want)
		}
	}
}

func real(t *testing.T, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// T-LSP-CFG-01, -02, -03: a project's command takes precedence over the operator's, and the operator's over the
// built-in one. The rest of the operator's entry stays. A project may define a language of its own.
func TestWhoseServer(t *testing.T) {
	t.Parallel()
	list := core.With(core.Builtin(), map[string]core.Override{
		"go":  {Command: []string{"operators"}, Read: []string{"/modules"}},
		"zig": {Command: []string{"zls"}, Extensions: []string{"zig"}},
	})
	none, declared := core.View{}, core.View{Declared: []dsl.LanguageServer{
		{Lang: "go", Command: []string{"projects", "-x"}},
		{Lang: "nim", Command: []string{"nimlsp"}, Extensions: []string{".nim", ".css"}},
	}}
	for _, tt := range []struct {
		view       core.View
		lang, want string
		read       []string
	}{
		{none, "go", "operators", []string{"/modules"}},
		{declared, "go", "projects -x", []string{"/modules"}},
		{none, "zig", "zls", nil},
		{none, "python", "pyright-langserver --stdio", nil},
		{declared, "nim", "nimlsp", nil},
	} {
		e, ok := tt.view.Entry(list, tt.lang)
		if !ok || strings.Join(e.Commands[0], " ") != tt.want || len(e.Commands) > 1 {
			t.Errorf("%s: %v", tt.lang, e.Commands)
		}
		if d := cmp.Diff(tt.read, e.Read); d != "" {
			t.Errorf("%s reads: %s", tt.lang, d)
		}
	}
	if _, ok := none.Entry(list, "nim"); ok {
		t.Error("a language of another project's is known")
	}
	p := core.New(core.Options{Entries: list}, nil, nil, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		view       core.View
		file, want string
	}{
		{none, "a.css", "css"},
		{declared, "a.css", "nim"},
		{declared, "a.NIM", "nim"},
		{declared, "a.go", "go"},
		{none, "a.nim", ""},
	} {
		if lang, _ := p.Lang(tt.view, tt.file); lang != tt.want {
			t.Errorf("%s is %q, want %q", tt.file, lang, tt.want)
		}
	}
}

// If an agent replaces a server's program by a pipe, the pool does not wait for the pipe's writer, and the pipe is no
// script.
func TestPipesAreNoPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, pipe := filepath.Join(dir, "script"), filepath.Join(dir, "pipe")
	err := os.WriteFile(script, []byte("#!/usr/bin/env -S node --x\n"), 0o700)
	if err := errors.Join(err, syscall.Mkfifo(pipe, 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{script: "node", pipe: "", dir: ""} {
		if got := core.Interpreter(path); got != want {
			t.Errorf("the interpreter of %s is %q, want %q", path, got, want)
		}
	}
}

// A changed file is shown to the server of its language, unless the caller's cage does not grant it.
func TestShownFiles(t *testing.T) {
	t.Parallel()
	e := core.Entry{Extensions: map[string]string{".ts": "typescript"}}
	caged := core.View{Root: "/p", Cage: &dsl.Cage{FS: []dsl.Mount{
		{Mode: "rw", Path: "project:/src"}, {Mode: "ro", Path: "project:/one.ts"},
	}}}
	for path, want := range map[string]bool{
		"/p/src/a.ts": true, "/p/src/deep/a.TS": true, "/p/one.ts": true,
		"/p/secret.ts": false, "/p/srcs/a.ts": false, "/p/src/a.go": false, "/p/one.ts.ts": false,
	} {
		if got := core.Shows(caged, e, path); got != want {
			t.Errorf("%s to the server of a caged agent: %v", path, got)
		}
	}
	if !core.Shows(core.View{Root: "/p"}, e, "/p/secret.ts") || core.Shows(core.View{Root: "/p"}, e, "/p/a.go") {
		t.Error("the server of an uncaged agent is shown the wrong files")
	}
}

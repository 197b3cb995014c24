package scaffold_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/services/kaged/internal/scaffold"
)

// written returns the project that Write creates in a folder, compiled as in a run.
func written(t *testing.T, p scaffold.Project) (scaffold.Made, *dsl.Project) {
	t.Helper()
	made, err := scaffold.Write(p)
	if err != nil {
		t.Fatal(err)
	}
	var files []dsl.File
	for _, path := range []string{dsl.ProjectFile, dsl.OverlayFile, dsl.InstructionsPath, ".kaged/prompts/primary.md"} {
		data, err := os.ReadFile(filepath.Join(p.Dir, path))
		files = append(files, dsl.File{Path: path, Present: err == nil, Content: data})
	}
	got := dsl.Parse(files)
	if got.Failed() || got.Project == nil {
		t.Fatalf("the project does not compile: %v", got.Diagnostics)
	}
	return made, got.Project
}

// places returns paths as kaged's own paths.
func places(t *testing.T, paths ...string) (list []ownpath.Path) {
	t.Helper()
	for _, path := range paths {
		place, err := ownpath.Resolve(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, place)
	}
	return list
}

// The project file names only paths of the project. Other paths on this machine are in the overlay, read-only.
func TestCageIsWrittenInTwoParts(t *testing.T) {
	t.Parallel()
	dir, tools := t.TempDir(), t.TempDir()
	_, project := written(t, scaffold.Project{Dir: dir, Slug: "x", Cage: scaffold.Cage{Needs: scaffold.Needs{
		Languages: []string{
			"Go",
			"Python",
		},
		Net: []string{"modules.example:443"}, Read: []string{tools}, Path: []string{tools + "/bin"},
		SystemPath: "/usr/bin:/bin", Env: map[string]string{"GOPROXY": "file://" + tools, "ODD": "a\"b: #c"},
	}}})
	main := readFile(t, filepath.Join(dir, dsl.ProjectFile))
	if strings.Contains(main, tools) || strings.Contains(main, dir) {
		t.Errorf("the project file names a path of this machine:\n%s", main)
	}
	c := project.Primary.Cage
	if c == nil || len(c.FS) != 2 || c.FS[0].Mode+c.FS[0].Path != "rwproject:/" ||
		c.FS[1].Mode+c.FS[1].Path != "ro"+tools {
		t.Fatalf("grants %+v", c)
	}
	if !slices.Equal(c.Net, []string{"modules.example:443"}) || c.State != "persistent" || c.Limits.Memory == 0 {
		t.Errorf("net %v, state %q, limits %+v", c.Net, c.State, c.Limits)
	}
	if c.Env["PATH"] != tools+"/bin:/usr/bin:/bin" || c.Env["GOPROXY"] != "file://"+tools || c.Env["ODD"] != "a\"b: #c" {
		t.Errorf("env %v", c.Env)
	}
}

// The file of an agent without a cage has the reason, in lines that fit on a screen.
func TestNoCageSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	why := strings.Repeat("no user namespaces here, and ", 9) + "no root."
	made, project := written(
		t,
		scaffold.Project{Dir: dir, Slug: "x", Cage: scaffold.Cage{Off: why, Needs: scaffold.Needs{Read: []string{dir}}}},
	)
	if project.Primary.Cage != nil || slices.Contains(made.Written, dsl.OverlayFile) || made.Cage.Off != why {
		t.Errorf("made %+v", made)
	}
	var said []string
	for line := range strings.Lines(readFile(t, filepath.Join(dir, dsl.ProjectFile))) {
		if len(line) > 121 {
			t.Errorf("a line of %d: %q", len(line), line)
		}
		said = append(said, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	if !strings.Contains(strings.Join(said, " "), why) {
		t.Errorf("the reason is missing: %v", said)
	}
}

// A refused grant does not make the project invalid. If kaged's own data is among the toolchains, they are left out; if
// it is in the project's folder, the cage is left out. If a rule is invalid, the network is left out.
func TestCageFitsTheMachine(t *testing.T) {
	t.Parallel()
	own := t.TempDir()
	_, project := written(
		t,
		scaffold.Project{Dir: t.TempDir(), Slug: "x", Forbidden: places(t, own), Cage: scaffold.Cage{Needs: scaffold.Needs{
			Languages: []string{
				"Go",
			},
			Net: []string{"modules.example:443"}, Read: []string{own}, Env: map[string]string{"A": "b"},
		}}},
	)
	if c := project.Primary.Cage; c == nil || len(c.FS) != 1 || len(c.Env) != 0 || len(c.Net) != 1 {
		t.Errorf("kaged's data as a toolchain: %+v", c)
	}
	_, project = written(
		t,
		scaffold.Project{Dir: t.TempDir(), Slug: "x", Cage: scaffold.Cage{Needs: scaffold.Needs{Net: []string{"*.example"}}}},
	)
	if c := project.Primary.Cage; c == nil || len(c.Net) != 0 {
		t.Errorf("a rule that is none: %+v", c)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	made, project := written(t, scaffold.Project{Dir: dir, Slug: "x", Forbidden: places(t, data)})
	if project.Primary.Cage != nil || made.Cage.Off == "" {
		t.Errorf("kaged's data in the project: %+v", made.Cage)
	}
}

// An overlay belongs to the operator. It is never replaced, and it is not written if init did not write the project
// file.
func TestOverlayIsTheOperators(t *testing.T) {
	t.Parallel()
	needs := scaffold.Cage{Needs: scaffold.Needs{Read: []string{t.TempDir()}}}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".kaged"), 0o755); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, dsl.OverlayFile)
	if err := os.WriteFile(overlay, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	made, _ := written(t, scaffold.Project{Dir: dir, Slug: "x", Force: true, Cage: needs})
	if got := readFile(t, overlay); got != "# mine\n" || !slices.Contains(made.Kept, dsl.OverlayFile) {
		t.Errorf("the overlay is %q, kept %v", got, made.Kept)
	}
	if err := os.Remove(overlay); err != nil {
		t.Fatal(err)
	}
	if made, err := scaffold.Write(scaffold.Project{Dir: dir, Cage: needs}); err != nil ||
		slices.Contains(made.Written, dsl.OverlayFile) {
		t.Errorf("wrote %v beside a project file of somebody else, %v", made.Written, err)
	}
}

// program writes a script in the place of a toolchain's program.
func program(t *testing.T, path, prints string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat <<'END'\n"+prints+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Of the user's home folder a cage shows only toolchains: never the home folder itself, nor the target of a link in the
// project. Programs of the project are not run.
func TestToolchains(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", filepath.Join(home, "bin")+":/usr/bin:/bin")
	getenv := func(name string) string { return map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}[name] }
	node := filepath.Join(home, "versions", "node", "v24")
	program(t, filepath.Join(node, "bin", "node"), "")
	program(t, filepath.Join(home, "bin", "node"), filepath.Join(node, "bin", "node"))
	program(t, filepath.Join(home, "bin", "npm"), "http://packages.example:4873/")
	program(t, filepath.Join(home, "bin", "python3"), home)
	program(t, filepath.Join(home, "bin", "rustc"), filepath.Join(home, "no", "such"))
	dir := t.TempDir()
	for _, name := range []string{"package.json", "pyproject.toml", "Cargo.toml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The interpreter of a virtual environment is a link to another file, which is not in a toolchain's folder.
	secrets := filepath.Join(home, "secrets")
	program(t, filepath.Join(secrets, "bin", "run"), "")
	if err := os.MkdirAll(filepath.Join(dir, ".venv", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".venv", "pyvenv.cfg"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(secrets, "bin", "run"), filepath.Join(dir, ".venv", "bin", "python")); err != nil {
		t.Fatal(err)
	}
	n := scaffold.Look(t.Context(), dir, getenv)
	if !slices.Equal(n.Languages, []string{"Node.js", "Python", "Rust"}) {
		t.Errorf("languages %v", n.Languages)
	}
	if !slices.Equal(n.Read, []string{node}) {
		t.Errorf("reads %v, want %s alone", n.Read, node)
	}
	if !slices.Contains(n.Net, "packages.example:4873") {
		t.Errorf("reaches %v", n.Net)
	}
	if _, err := cage.Compile(&dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: node}}, Net: n.Net}, dir); err != nil {
		t.Errorf("the needs cannot be granted: %v", err)
	}
}

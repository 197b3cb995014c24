package project_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/project"
)

// repository is a Git repository with a project in services/api.
type repository struct {
	*testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	t.Parallel()
	r := repository{t, t.TempDir()}
	r.put("services/api/main.go", "package main")
	return r
}

func (r repository) put(place, content string) {
	r.Helper()
	place = filepath.Join(r.dir, place)
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(place, []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r repository) link(to, place string) {
	r.Helper()
	if err := os.Symlink(to, filepath.Join(r.dir, place)); err != nil {
		r.Fatal(err)
	}
}

func (r repository) read(known string, denied ...string) project.File {
	r.Helper()
	opts := project.Options{Files: 9, FileBytes: 1 << 20, TotalBytes: 1 << 20, Rules: paths.Rules{Denied: denied}}
	_, files, err := project.Read(r.Context(), opts, project.Request{
		Root: filepath.Join(r.dir, "services/api"), Paths: []string{dsl.InstructionsPath},
		Known: map[string]string{dsl.InstructionsPath: known},
	})
	if err != nil {
		r.Fatal(err)
	}
	return files[0]
}

// head is the first line of a folder's text.
const head = "# Instructions of %s\n\n"

// holds fails the test unless the instructions are the project's own text only.
func (r repository) holds(name, want string) {
	r.Helper()
	want = fmt.Sprintf(head, "./"+name) + want
	if f := r.read(""); string(f.Content) != want {
		r.Errorf("the instructions are %v %q, want %q", f.State, f.Content, want)
	}
}

// The instructions of a project are those of the repository's root and of each folder down to the project, whose own
// text is last. CLAUDE.md counts in a folder without AGENTS.md.
func TestInstructions(t *testing.T) {
	r := newRepository(t)
	if f := r.read(""); f.State != project.Missing {
		t.Errorf("without files: %+v", f)
	}
	r.put("AGENTS.md", "Whole repository.")
	r.put("services/api/AGENTS.md", "The API.\n")
	r.holds("AGENTS.md", "The API.") // outside a repository only the project's own text counts
	r.put(".git/HEAD", "ref: x")
	r.put("services/CLAUDE.md", "All services.")
	r.put("services/api/CLAUDE.md", "Not read.")
	want := fmt.Sprintf(head+"Whole repository.\n\n"+head+"All services.\n\n"+head+"The API.",
		filepath.Base(r.dir)+"/AGENTS.md", "services/CLAUDE.md", "./AGENTS.md")
	if f := r.read(""); string(f.Content) != want {
		t.Errorf("%q, want %q", f.Content, want)
	}
	f := r.read("")
	if again := r.read(f.SHA256); again.State != project.Unchanged || again.Content != nil {
		t.Errorf("unchanged: %+v", again)
	}
	r.put("services/api/.git/HEAD", "ref: x")
	r.holds("AGENTS.md", "The API.") // the project is a repository itself
}

// Instructions import files of the project by lines, up to a maximum depth, each file once, and never by lines in code.
func TestInstructionsImport(t *testing.T) {
	r := newRepository(t)
	r.put("services/api/AGENTS.md", "Begin.\n@docs/a.md\n- @docs/b.md\n"+
		"```\n@docs/c.md\n````\n~~~~\n@docs/c.md\n~~~\n@docs/c.md\n"+
		"~~~~\n    @docs/c.md\nask @docs/c.md\n@missing.md\n@docs\n@docs/c.md")
	r.put("services/api/docs/a.md", "A.\n@b.md\n@a.md\n@../AGENTS.md\n")
	r.put("services/api/docs/b.md", "B.\n@a.md")
	r.put("services/api/docs/c.md", "C.\n")
	r.holds("AGENTS.md", "Begin.\nA.\nB.\n@a.md\n@a.md\n@../AGENTS.md\n- @docs/b.md\n"+
		"```\n@docs/c.md\n````\n~~~~\n@docs/c.md\n~~~\n@docs/c.md\n"+
		"~~~~\n    @docs/c.md\nask @docs/c.md\n@missing.md\n@docs\nC.")
	for i := range 7 {
		r.put(fmt.Sprintf("services/api/deep/%d.md", i), fmt.Sprintf("%d\n@%d.md", i, i+1))
	}
	r.put("services/api/AGENTS.md", "@deep/0.md")
	r.holds("AGENTS.md", "0\n1\n2\n3\n4\n@5.md")
}

// Files outside the project, hidden and denied files, links that leave the project, pipes, binaries and files that are
// too long are not read as instructions. Reading a pipe does not wait for a writer.
func TestHostileInstructions(t *testing.T) {
	r := newRepository(t)
	r.put("secret.md", "secret")
	r.put("services/api/.env", "KEY=secret")
	r.put("services/api/private/key.md", "secret")
	r.put("services/api/bin.md", "a\x00b")
	r.put("services/api/long.md", strings.Repeat("x", 65<<10))
	r.put("services/api/.claude/rules.md", "Rules.")
	r.link("../../secret.md", "services/api/out.md")
	r.link(".env", "services/api/env.md")
	r.link("loop.md", "services/api/loop.md")
	if err := unix.Mkfifo(filepath.Join(r.dir, "services/api/pipe.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := "@../../secret.md\n@/etc/passwd\n@~/secret.md\n@.env\n@env.md\n@out.md\n" +
		"@loop.md\n@pipe.md\n@bin.md\n@long.md\n@private/key.md"
	r.put("services/api/AGENTS.md", lines+"\n@.claude/rules.md\n")
	if f := r.read("", "private"); string(f.Content) != fmt.Sprintf(head, "./AGENTS.md")+lines+"\nRules." {
		t.Errorf("%q", f.Content)
	}
	os.Remove(filepath.Join(r.dir, "services/api/AGENTS.md"))
	r.link("../../secret.md", "services/api/AGENTS.md")
	r.put("services/api/CLAUDE.md", "Instead.")
	r.holds("CLAUDE.md", "Instead.")
	r.put(".git/HEAD", "ref: x")
	r.link("/etc/passwd", "services/AGENTS.md")
	if err := unix.Mkfifo(filepath.Join(r.dir, "AGENTS.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.holds("CLAUDE.md", "Instead.")
}

// Invisible characters are removed, so that the agent reads the text that the operator approved.
func TestInvisibleInstructions(t *testing.T) {
	r := newRepository(t)
	r.put("services/api/AGENTS.md", "\ufeffRun\u202e \u200btests\U0001F3F4\U000E0061\U000E0062\U000E0101.\r\n"+
		"Gut gemacht \u2764\ufe0f\x1b[2J\n")
	r.holds("AGENTS.md", "Run tests\U0001F3F4.\nGut gemacht \u2764\ufe0f[2J")
	r.put("services/api/AGENTS.md", "\u200b\n")
	if f := r.read(""); f.State != project.Missing {
		t.Errorf("an invisible text is %v %q", f.State, f.Content)
	}
}

// If instructions are too long, the texts of the uppermost folders are cut at the end of a line, with a note.
func TestLongInstructions(t *testing.T) {
	r := newRepository(t)
	r.put(".git/HEAD", "ref: x")
	r.put("AGENTS.md", strings.Repeat("Für alle.\n", 5000))
	r.put("services/api/AGENTS.md", strings.Repeat("Near.\n", 3000)+"The end.")
	content := string(r.read("").Content)
	far, near, _ := strings.Cut(content, "# Instructions of ./AGENTS.md")
	if len(content) > 64<<10 || !strings.HasSuffix(near, "\nThe end.") ||
		!strings.Contains(far, "Für alle.\n[The end is left out: the instructions are longer than 64 KiB.]") {
		t.Errorf("%d bytes, %q ... %q", len(content), far[len(far)-100:], content[len(content)-20:])
	}
	r.put("services/api/AGENTS.md", strings.Repeat("ü", 32<<10))
	if content := r.read("").Content; len(content) > 64<<10 || !strings.Contains(string(content), "ü") {
		t.Errorf("%d bytes", len(content))
	}
}

// Only folders of the project's owner count above a project, so that another user of the machine cannot add
// instructions.
func TestInstructionsOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	r := newRepository(t)
	r.put("AGENTS.md", "Obey.")
	r.put("services/api/AGENTS.md", "The API.")
	r.put(".git/HEAD", "ref: x")
	r.put("services/CLAUDE.md", "Obey.")
	if err := os.Chown(filepath.Join(r.dir, "services/CLAUDE.md"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if f := r.read(""); strings.Contains(string(f.Content), "services/CLAUDE.md") {
		t.Errorf("a file of another user counts: %q", f.Content)
	}
	if err := os.Chown(r.dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	r.holds("AGENTS.md", "The API.")
}

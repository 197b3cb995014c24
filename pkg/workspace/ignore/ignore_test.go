package ignore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/workspace/ignore"
)

// world is a repository, with its own home folder so that no user's configuration plays a part.
type world struct{ home, root string }

func newWorld(t testing.TB, dir string) *world {
	w := &world{filepath.Join(dir, "home"), filepath.Join(dir, "repo")}
	for _, d := range []string{w.home, w.root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.git(t, w.root, "init", "-q")
	return w
}

func (w *world) git(t testing.TB, dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = w.environ()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

func (w *world) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "GIT_CONFIG_NOSYSTEM=1"}
}

func (w *world) lookup(name string) (string, bool) {
	value, ok := map[string]string{"HOME": w.home, "GIT_CONFIG_NOSYSTEM": "1"}[name]
	return value, ok
}

func (w *world) write(t testing.TB, name, content string) {
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// gitSees returns the files git does not ignore.
func (w *world) gitSees(t testing.TB) []string {
	var files []string
	for name := range strings.SplitSeq(w.git(t, w.root, "ls-files", "-coz", "--exclude-standard"), "\x00") {
		if name != "" {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}

// weSee returns the files a walk with this package does not ignore.
func (w *world) weSee(t testing.TB) []string {
	var files []string
	var visit func(dir, rel string, d *ignore.Dir)
	visit = func(dir, rel string, d *ignore.Dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if d.Ignored(e.Name(), e.IsDir()) {
				continue
			}
			if !e.IsDir() {
				files = append(files, rel+e.Name())
				continue
			}
			sub := filepath.Join(dir, e.Name())
			content, _ := os.ReadFile(filepath.Join(sub, ignore.FileName))
			visit(sub, rel+e.Name()+"/", d.Child(e.Name()).Enter(content))
		}
	}
	visit(w.root, "", ignore.Start(w.root, w.root, ignore.LoadUser(w.lookup)))
	slices.Sort(files)
	return files
}

func (w *world) compare(t testing.TB) {
	if d := cmp.Diff(w.gitSees(t), w.weSee(t)); d != "" {
		t.Fatalf("git (-) and kaged (+) see other files:\n%s", d)
	}
}

// The cases that others get wrong are decided as git decides them: nesting, negation, anchors, classes, escapes,
// spaces.
func TestDecidesAsGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	for name, content := range map[string]string{
		".gitignore": "*.log\n!keep.log\n/top\nbuild/\n!build/keep\ndoc/*.txt\n**/deep/x\na/**/z\n\\#hash\n\\!bang\ntrail " +
			" \nkept\\ \n" +
			"[!a]bc\n[[:digit:]]*.num\nq?x\n*.t[mx]p\n/foo/*\n!/foo/bar\nliteral\\*star\nCR\r\nabc/\n!abc/in\nx*y*z\n",
		"sub/.gitignore":       "!*.log\n/top\nonly.sub\n",
		"sub/inner/.gitignore": "*\n!.gitignore\n!yes\n",
		".git/info/exclude":    "excluded\n!re.log\n",
		"a.log":                "", "keep.log": "", "re.log": "", "sub/b.log": "", "sub/inner/yes": "", "sub/inner/no": "",
		"top": "", "sub/top": "", "sub/inner/top": "", "build/x": "", "build/keep": "", "sub/build/y": "", "sub/only.sub": "",
		"only.sub": "", "doc/a.txt": "", "doc/sub/a.txt": "", "deep/x": "", "p/deep/x": "", "p/q/deep/x/y": "", "a/z": "",
		"a/b/z": "", "a/b/c/z/w": "",
		"#hash": "", "!bang": "", "trail": "", "kept ": "", "kept": "", "abc": "", "xbc": "", "1a.num": "", "a1.num": "",
		"qax": "", "q/x": "",
		"f.tmp": "", "f.txp": "", "f.tap": "", "foo/bar": "", "foo/baz": "", "foo/bar2/x": "", "literal*star": "",
		"literalXstar": "", "CR": "",
		"excluded": "", "sub/excluded": "", "xaybz": "", "xz": "", "global.bak": "", "sub/global.bak": "",
		"with\nnewline.log": "", "\xff\xfe.log": "", "\xff": "",
	} {
		w.write(t, name, content)
	}
	if err := os.WriteFile(filepath.Join(w.home, ".gitconfig"),
		[]byte("[user]\n\tname = x\n[core]\n\texcludesFile = \"~/my ignore\" # mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.home, "my ignore"), []byte("*.bak\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.compare(t)
	if n := len(w.weSee(t)); n < 10 {
		t.Errorf("only %d files are left to see", n)
	}
}

// A walk that begins below the repository's root knows the rules from above, and one that begins in
// an ignored folder shows its contents.
func TestStartBelowTheRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.write(t, ".gitignore", "*.log\n/sub/secret\nnode_modules/\n")
	w.write(t, "sub/.gitignore", "local\n")
	w.write(t, "node_modules/x/y", "")
	user := ignore.LoadUser(w.lookup)
	sub := filepath.Join(w.root, "sub")
	for _, top := range []string{w.root, sub} {
		d := ignore.Start(top, sub, user)
		for name, want := range map[string]bool{"a.log": true, "secret": true, "local": true, "other": false, ".git": true} {
			if got := d.Ignored(name, false); got != want {
				t.Errorf("top %s: %s ignored = %v", top, name, got)
			}
		}
	}
	if ignore.Start(w.root, filepath.Join(w.root, "node_modules/x"), user).Ignored("y", false) {
		t.Error("a file in a folder that was asked for is ignored")
	}
}

// A repository inside another starts afresh; a folder that only looks like one does not. Links are not read.
func TestRepositoriesAndLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.write(t, ".gitignore", "*.log\n")
	w.git(t, w.root, "init", "-q", "nested")
	w.write(t, "fake/.git/nothing", "")
	w.write(t, "worktree/.git", "gitdir: ../.git/worktrees/w\n")
	w.write(t, ".git/worktrees/w/commondir", "../..\n")
	w.write(t, ".git/info/exclude", "shared\n")
	user := ignore.LoadUser(w.lookup)
	top := ignore.Start(w.root, w.root, user)
	for dir, want := range map[string][2]bool{"nested": {false, false}, "fake": {true, true}, "worktree": {false, true}} {
		d := top.Child(dir).Repo(filepath.Join(w.root, dir))
		if got := [2]bool{d.Ignored("a.log", false), d.Ignored("shared", false)}; got != want {
			t.Errorf("%s: a.log and shared ignored = %v, want %v", dir, got, want)
		}
	}
	if err := os.MkdirAll(filepath.Join(w.root, "linked"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../.gitignore", filepath.Join(w.root, "linked", ".gitignore")); err != nil {
		t.Fatal(err)
	}
	if ignore.Start(filepath.Join(w.root, "linked"), filepath.Join(w.root, "linked"), user).Ignored("x.txt", false) {
		t.Error("x.txt is ignored")
	}
}

// For any patterns in any folders, git and kaged see the same files.
func TestEqualsGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	names := []string{"a", "b", "ab", "abc", "a.x", "b.y", ".h", "[a]", "a b", "A", "a*"}
	component := rapid.OneOf(rapid.SampledFrom(names), rapid.SampledFrom([]string{
		"*", "?", "a*", "*b", "*.x", "[ab]", "[!a]", "[^b]*", "[a-c]", `\a`, `a\*`, "[[:alpha:]]", "[[:upper:]]?", "a?c",
		"*a*b*", `[\]a]`, "[]a]", "[a", "[a-]*",
	}))
	line := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(component, rapid.Just("**")), 1, 3).Draw(t, "parts")
		text := strings.Join(parts, "/")
		text = rapid.SampledFrom([]string{"", "", "", "/", "!", "!/"}).Draw(t, "before") + text
		return text + rapid.SampledFrom([]string{"", "", "", "/", " ", `\ `, "/**", "\r"}).Draw(t, "after")
	})
	file := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "lines"), "\n")
	})
	dirs := []string{"", "a/", "a/b/", "b/", "ab/abc/"}
	for _, dir := range dirs {
		for _, name := range names {
			w.mayWrite(filepath.Join(dir, name, "f"))
			w.mayWrite(filepath.Join(dir, "f"+name))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		for _, dir := range dirs {
			w.write(t, filepath.Join(dir, ".gitignore"), file.Draw(rt, "ignore in "+dir))
		}
		w.write(t, ".git/info/exclude", file.Draw(rt, "exclude"))
		w.compare(failing{t, rt})
	})
}

func (w *world) mayWrite(name string) {
	path := filepath.Join(w.root, name)
	if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
		_ = os.WriteFile(path, nil, 0o644)
	}
}

// failing reports failures to rapid, so that it finds the smallest example.
type failing struct {
	testing.TB
	rt *rapid.T
}

func (f failing) Fatalf(format string, args ...any) { f.rt.Fatalf(format, args...) }

// A file of thousands of patterns that each would try every way to match costs no more than a moment for a name.
func TestHostilePatternsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.write(t, ".gitignore", strings.Repeat(strings.Repeat("**/*a*", 40)+"b\n", 4000)+"last\n")
	d := ignore.Start(w.root, w.root, ignore.LoadUser(w.lookup))
	for range 5 {
		if d.Ignored(strings.Repeat("a", 255), false) {
			t.Fatal("ignored")
		}
	}
	if !d.Ignored("last", false) {
		t.Error("a pattern at the end does not count")
	}
}

// Deciding by any file of patterns ends soon and the same way twice.
func FuzzIgnored(f *testing.F) {
	for _, seed := range []string{
		"*.log", "!a\n[", "**/**/**/**/a", strings.Repeat("*a", 50), strings.Repeat("**/", 60), `\`, "[[:alpha:", "[a-",
		"a/**/b", "\xef\xbb\xbfx",
	} {
		f.Add(seed, "a/b", false)
		f.Add(seed, strings.Repeat("a", 200), true)
	}
	dir := f.TempDir()
	top := ignore.Start(dir, dir, ignore.LoadUser(func(string) (string, bool) { return "", false }))
	f.Fuzz(func(t *testing.T, content, name string, isDir bool) {
		d := top.Enter([]byte(content))
		first := d.Ignored(name, isDir)
		if second := d.Ignored(name, isDir); second != first {
			t.Fatal("undecided")
		}
	})
}

package ignore_test

import (
	"errors"
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

// Tracked files are not ignored, in every form of an index: a file in an ignored folder, one a
// pattern names, a submodule; their neighbours still are.
func TestTrackedIsNotIgnored(t *testing.T) {
	t.Parallel()
	for name, form := range map[string][]string{
		"version 2": {"update-index", "--index-version", "2"}, "version 4": {"update-index", "--index-version", "4"},
		"split": {"update-index", "--split-index"}, "intent to add": {"add", "-N", "-f", "out/later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.TempDir())
			for _, file := range []string{
				"a.log", "kept.log", "out/x", "out/deep/kept", "out/deep/y", "out.b/z", "out/later", "src/main.go", "src/é.log",
			} {
				w.write(t, file, file)
			}
			w.write(t, ".gitignore", "*.log\nout\nout.b\n")
			w.git(t, w.root, "add", "-f", "kept.log", "out/deep/kept", "src/é.log", "src/main.go")
			w.git(t, w.root, form...)
			w.compare(t)
			if seen := w.weSee(t); !slices.Contains(seen, "out/deep/kept") || !slices.Contains(seen, "src/é.log") ||
				slices.Contains(seen, "out/deep/y") {
				t.Errorf("seen: %q", seen)
			}
		})
	}
}

// A repository with longer object names, and a work tree with its own index, are read as well.
func TestTrackedElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{filepath.Join(dir, "home"), filepath.Join(dir, "repo")}
	for _, d := range []string{w.home, w.root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.git(t, w.root, "init", "-q", "--object-format=sha256")
	w.write(t, ".gitignore", "*.log\n")
	w.write(t, "kept.log", "x")
	w.write(t, "other.log", "x")
	w.git(t, w.root, "add", "-f", "kept.log", ".gitignore")
	w.compare(t)
	w.git(t, w.root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
	tree := filepath.Join(dir, "tree")
	w.git(t, w.root, "worktree", "add", "-q", "-b", "side", tree)
	w.root = tree
	w.write(t, "new.log", "x")
	w.write(t, "forced.log", "x")
	w.git(t, w.root, "add", "-f", "forced.log")
	w.compare(t)
	if d := cmp.Diff([]string{".gitignore", "forced.log", "kept.log"}, w.weSee(t)); d != "" {
		t.Error(d)
	}
}

// core.excludesFile is found where git finds it: in the user's files, in files they include, in the
// repository's own.
func TestExcludesFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ user, repo string }{
		"default":              {"", ""},
		"named":                {"[core]\n\texcludesFile = ~/own\n", ""},
		"quoted and odd":       {"[CORE] EXCLUDESFILE = \"~/o\\\nwn\" ; mine\n", ""},
		"included":             {"[include]\n\tpath = more\n[core]\n\tbare = false\n", ""},
		"included if here":     {"[includeIf \"gitdir:~/../repo/\"]\n\tpath = ~/more\n", ""},
		"included if below":    {"[includeIf \"gitdir:**/repo/.git\"]\n\tpath = ~/more\n", ""},
		"included if beside":   {"[includeIf \"gitdir:./../repo/\"]\n\tpath = ~/more\n", ""},
		"included in any case": {"[includeIf \"gitdir/i:REPO/\"]\n\tpath = ~/more\n", ""},
		"included elsewhere":   {"[includeIf \"gitdir:~/other/\"]\n\tpath = ~/more\n", ""},
		"included on branch":   {"[includeIf \"onbranch:ma*\"]\n\tpath = ~/more\n", ""},
		"included off branch":  {"[includeIf \"onbranch:x\"]\n\tpath = ~/more\n", ""},
		"the repository's":     {"[core]\n\texcludesFile = ~/own\n", "[core]\n\texcludesfile = ../home/third\n"},
		"other sections":       {"[core \"sub\"]\n\texcludesFile = ~/own\n[corex]\n\texcludesFile = ~/own\n", ""},
		"emptied":              {"[core]\n\texcludesFile = ~/own\n", "[core]\n\texcludesfile =\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.TempDir())
			w.git(t, w.root, "symbolic-ref", "HEAD", "refs/heads/main")
			for file, content := range map[string]string{
				"../home/.gitconfig": c.user, "../home/more": "[core]\n\texcludesFile = ~/own\n", "../home/own": "*.own\n",
				"../home/third": "*.third\n", "../home/.config/git/ignore": "*.default\n", "a.own": "", "a.third": "",
				"a.default": "", "sub/a.own": "",
			} {
				w.write(t, file, content)
			}
			config := filepath.Join(w.root, ".git/config")
			before, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, append(before, c.repo...), 0o644); err != nil {
				t.Fatal(err)
			}
			w.compare(t)
		})
	}
}

// A repository's configuration may only name files that may be read; the user's may name any.
func TestWhatConfigurationMayRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.write(t, "../home/secret", "*.x\n")
	w.write(t, "../home/.gitconfig", "[core]\n\texcludesFile = ~/secret\n")
	user := ignore.LoadUser(w.lookup)
	user.MayRead = func(real string) bool { return strings.HasPrefix(real, w.root+"/") }
	if !ignore.Start(w.root, w.root, user).Ignored("a.x", false) {
		t.Error("the user's own file is not read")
	}
	w.write(t, "../home/.gitconfig", "")
	for _, config := range []string{"[core]\nexcludesFile = ../home/secret\n", "[include]\npath = ../../home/more\n"} {
		w.write(t, "../home/more", "[core]\nexcludesFile = "+filepath.Join(w.root, "inside")+"\n")
		w.write(t, "inside", "*.x\n")
		w.write(t, ".git/config", config)
		if ignore.Start(w.root, w.root, user).Ignored("a.x", false) {
			t.Errorf("%q made a file outside be read", config)
		}
	}
	w.write(t, ".git/config", "[core]\nexcludesFile = inside\n")
	if !ignore.Start(w.root, w.root, user).Ignored("a.x", false) {
		t.Error("a file that may be read was not")
	}
}

// For any patterns and any files tracked in spite of them, git and kaged see the same files, and
// git check-ignore names those that kaged does not (T-SEARCH-GREP-09, T-SEARCH-GLOB-05).
func TestEqualsGitWithTrackedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	var all []string
	for _, dir := range []string{"", "a/", "a/b/", "b/", "b/a/c/"} {
		for _, name := range []string{"a.x", "b.x", "c", "f.y"} {
			if w.mayWrite(dir + name); !slices.Contains(all, dir+name) {
				all = append(all, dir+name)
			}
		}
	}
	slices.Sort(all)
	line := rapid.SampledFrom(
		[]string{
			"*",
			"*.x",
			"!*.x",
			"a",
			"/a",
			"a/",
			"!a/",
			"b/*",
			"!b/a",
			"**/c",
			"!c",
			"a/**",
			"!a/b/**",
			"/b/a/",
			"f.?",
			"[a-b].x",
			"!/a.x",
		},
	)
	file := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "lines"), "\n")
	})
	rapid.Check(t, func(rt *rapid.T) {
		for _, dir := range []string{"", "a/", "b/a/"} {
			w.write(t, dir+".gitignore", file.Draw(rt, "ignore in "+dir))
		}
		w.write(t, ".git/info/exclude", file.Draw(rt, "exclude"))
		w.write(t, "../home/.config/git/ignore", file.Draw(rt, "user's"))
		if err := os.RemoveAll(filepath.Join(w.root, ".git/index")); err != nil {
			t.Fatal(err)
		}
		if tracked := rapid.SliceOfN(rapid.SampledFrom(all), 0, 3).Draw(rt, "tracked"); len(tracked) > 0 {
			w.git(t, w.root, append([]string{"add", "-f", "--"}, tracked...)...)
		}
		w.compare(failing{t, rt})
		seen := w.weSee(t)
		ignored := w.checkIgnored(t, all)
		for _, name := range all {
			if slices.Contains(ignored, name) == slices.Contains(seen, name) {
				rt.Fatalf("%s: git check-ignore names %q, seen are %q", name, ignored, seen)
			}
		}
	})
}

// checkIgnored returns those of the files that git check-ignore says are ignored.
func (w *world) checkIgnored(t testing.TB, names []string) []string {
	cmd := exec.Command("git", "check-ignore", "-z", "--stdin")
	cmd.Dir, cmd.Env = w.root, w.environ()
	cmd.Stdin = strings.NewReader(strings.Join(names, "\x00"))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1 is an empty result
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

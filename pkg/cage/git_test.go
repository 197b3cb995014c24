package cage_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// git runs git in a folder, without the user's and the system's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository with one commit.
func repository(t *testing.T, args ...string) (root, commit string) {
	t.Helper()
	root = plant(t, "README")
	git(t, root, append([]string{"init", "-q"}, args...)...)
	git(t, root, "add", "README")
	git(t, root, "commit", "-qm", "first")
	return root, git(t, root, "rev-parse", "HEAD")
}

func gitlink(t *testing.T, root, commit string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		git(t, root, "update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)
	}
}

// The path of a submodule in the index is protected before the submodule is initialised, because git status enters it.
func TestGitlinks(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, root string){
		"version 2":    func(*testing.T, string) {},
		"version 4":    func(t *testing.T, root string) { git(t, root, "update-index", "--index-version=4") },
		"version 3":    func(t *testing.T, root string) { git(t, root, "add", "-N", "new") },
		"split index":  func(t *testing.T, root string) { git(t, root, "update-index", "--split-index") },
		"sparse index": func(t *testing.T, root string) { git(t, root, "config", "index.sparse", "true") },
	} {
		for _, format := range []string{"sha1", "sha256"} {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				root, commit := repository(t, "--object-format="+format)
				for _, name := range []string{"new", "vendor/file", "vendor/lib/", "vendor/other/", "place"} {
					at := filepath.Join(root, name)
					if strings.HasSuffix(name, "/") {
						must(t, os.MkdirAll(at, 0o755))
						continue
					}
					must(t, os.MkdirAll(filepath.Dir(at), 0o755))
					must(t, os.WriteFile(at, []byte(name), 0o644))
				}
				git(t, root, "add", "vendor/file")
				gitlink(t, root, commit, "vendor/lib", "vendor/other", "gone/deep/lib", "place")
				prepare(t, root)
				got := added(root, compile(t, root, "rw ."))
				for name, want := range map[string]string{
					"vendor/lib/.git": "missing folder", "vendor/other/.git": "missing folder", "gone": "missing folder",
					"vendor/lib": "pinned", "place": "file",
				} {
					if got[name] != want {
						t.Errorf("%s: %q, want %q", name, got[name], want)
					}
				}
			})
		}
	}
}

// Programs, hooks and includes named in any file of a git configuration are read-only.
func TestNamedByConfiguration(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	for _, name := range []string{
		"scripts/hooks/pre-commit", "tools/clean.py", "tools/watch", "tools/pack", "tools/sub", "shared/a.gitconfig",
		"shared/hooks/x", "nested/x",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), nil, 0o755))
	}
	must(
		t, os.WriteFile(filepath.Join(root, "shared/a.gitconfig"),
			[]byte("[Core]\n\thooksPath = shared/hooks\n[include]\npath = more.gitconfig\n"), 0o644),
	)
	for key, value := range map[string]string{
		"core.hooksPath": "scripts/hooks", "include.path": "../shared/a.gitconfig",
		"includeIf.gitdir:/never/.path": root + "/absent.gitconfig",
		"filter.x.clean":                `python3 "tools/clean.py" %f`, "core.fsmonitor": "tools/watch", "core.editor": "vi",
		"remote.x.uploadpack": "./tools/pack", "submodule.x.update": "!tools/sub",
	} {
		git(t, root, "config", key, value)
	}
	git(t, root, "init", "-q", "nested")
	git(t, filepath.Join(root, "nested"), "config", "core.hooksPath", "../absent/hooks")
	got := added(root, compile(t, root, "rw ."))
	for name, want := range map[string]string{
		"scripts/hooks": "folder", "shared/a.gitconfig": "file", "shared/hooks": "folder",
		"shared/more.gitconfig": "missing file",
		"absent.gitconfig":      "missing file", "tools/clean.py": "file", "tools/watch": "file", "tools/pack": "file",
		"tools/sub": "file", "absent": "missing folder",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// A policy that names the folder of the submodules may add some, but not change the hooks and the configuration of
// those that are there, with and without a grant around it.
func TestNamedModules(t *testing.T) {
	t.Parallel()
	root := plant(t, ".git/HEAD", ".git/config", ".git/objects/", ".git/refs/",
		".git/modules/lib/m/HEAD", ".git/modules/lib/m/config", ".git/modules/lib/m/objects/", ".git/modules/lib/m/refs/")
	for _, grants := range [][]string{
		{"rw .", "rw ./.git/modules"}, {"rw ./.git/modules"}, {"rw .", "rw ./.git/modules/lib"},
	} {
		v := compile(t, root, grants...)
		for name, want := range map[string]bool{
			"config": false, "hooks": false, "hooks/pre-commit": false, "commondir": false, "modules/x": false, "HEAD": true,
			"objects/x": true,
		} {
			if v.Allows(filepath.Join(root, ".git/modules/lib/m", name), true) != want {
				t.Errorf("%v: %s: write %t, want %t", grants, name, !want, want)
			}
		}
		if pinned := added(root, v)[".git/modules/lib/m"]; pinned != "pinned" {
			t.Errorf("%v: the repository can be renamed away: %q", grants, pinned)
		}
	}
}

// With git: read_only the whole repository is read-only, also behind a .git file, and a grant in it is refused.
func TestGitReadOnly(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	git(t, root, "worktree", "add", "-q", "tree")
	p := policy("rw .")
	p.Git = dsl.GitReadOnly
	v, err := cage.Compile(p, root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		".git/index": false, ".git/objects/x": false, ".git/worktrees/tree/index": false, "tree/.git": false, "tree/x": true,
		"x": true,
	} {
		if v.Allows(filepath.Join(root, name), true) != want {
			t.Errorf("%s: write %v, want %v", name, !want, want)
		}
	}
	if !strings.Contains(described(v), "git: read-only") {
		t.Errorf("it is not said: %s", described(v))
	}
	p.FS = append(p.FS, dsl.Mount{Mode: "rw", Path: "./.git/objects"})
	if _, err := cage.Compile(p, root); fault.From(err).Code != fault.CagePolicyInvalid {
		t.Errorf("a grant in a read-only repository: %v", err)
	}
}

// Paths made during a cage's life are found afterwards: gitlinks, repositories, paths named by a configuration, and
// protected names in every folder. Earlier paths and empty folders are not reported.
func TestSince(t *testing.T) {
	t.Parallel()
	root, commit := repository(t)
	must(t, os.MkdirAll(root+"/old/.vscode", 0o755))
	must(t, os.WriteFile(root+"/old/.vscode/tasks.json", nil, 0o644))
	must(t, os.WriteFile(root+"/old/.envrc", nil, 0o644))
	before := compile(t, root, "rw .")
	if found := compile(t, root, "rw .").Since(before); len(found) != 0 {
		t.Errorf("nothing was made, found %v", found)
	}
	gitlink(t, root, commit, "vendor/lib")
	git(t, root, "init", "-q", "new/repository")
	must(t, os.MkdirAll(root+"/deep/.vscode", 0o755))
	must(t, os.MkdirAll(root+"/deep/.zed", 0o755))
	must(t, os.WriteFile(root+"/deep/.vscode/tasks.json", nil, 0o644))
	must(t, os.WriteFile(root+"/lefthook-local.yml", nil, 0o644))
	must(t, os.WriteFile(root+"/old/.envrc", []byte("x"), 0o644))
	git(t, root, "config", "core.hooksPath", "elsewhere")
	git(t, root, "init", "-q", "--bare", "deep/mirror")
	// git takes this for a repository if the .git at the root is broken
	for _, name := range []string{"objects", "refs"} {
		must(t, os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	must(t, os.WriteFile(root+"/HEAD", []byte("ref: refs/heads/main\n"), 0o644))
	must(t, os.MkdirAll(root+"/half/objects", 0o755))
	must(t, os.WriteFile(root+"/half/HEAD", nil, 0o644))
	var got []string
	for _, f := range compile(t, root, "rw .").Since(before) {
		got = append(got, f.Kind+" "+strings.TrimPrefix(strings.TrimPrefix(f.Path, root), "/"))
		if f.Text == "" {
			t.Errorf("no sentence about %v", f)
		}
	}
	want := []string{
		"repository ", "name deep/.vscode", "repository deep/mirror", "hook_path elsewhere", "name lefthook-local.yml",
		"repository new/repository/.git", "name old/.envrc",
		"gitlink vendor/lib",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	for i := range 600 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/d%d", root, i), 0o755))
	}
	found := compile(t, root, "rw .").Since(before)
	if !slices.ContainsFunc(found, func(f contract.Finding) bool { return f.Kind == "partial" }) {
		t.Error("a search that has become partial is not told")
	}
}

// Many findings of one sort hide none of another, wherever they are.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	before := compile(t, root, "rw .")
	for i := range 200 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/!first/%d", root, i), 0o755))
		must(t, os.WriteFile(fmt.Sprintf("%s/!first/%d/.envrc", root, i), []byte("x"), 0o644))
	}
	must(t, os.WriteFile(root+"/.envrc", []byte("x"), 0o644))
	must(t, os.WriteFile(root+"/lefthook.yml", []byte("x"), 0o644))
	must(t, os.MkdirAll(root+"/tree/deep", 0o755))
	git(t, root+"/tree/deep", "init", "-q")
	found := compile(t, root, "rw .").Since(before)
	got := map[string]bool{}
	for _, f := range found {
		got[strings.TrimPrefix(f.Path, root+"/")] = true
	}
	for _, name := range []string{".envrc", "lefthook.yml", "tree/deep/.git"} {
		if !got[name] {
			t.Errorf("%s is not found", name)
		}
	}
	last := slices.ContainsFunc(found, func(f contract.Finding) bool {
		return f.Kind == "partial" && strings.HasPrefix(f.Text, "There are ") &&
			strings.HasSuffix(f.Text, " more paths that are read by direnv, on entering the folder.")
	})
	if len(found) > cage.MaxFindings || !last {
		t.Errorf("%d findings, the number of the others among them: %v", len(found), last)
	}
}

// Git truncates COMMIT_EDITMSG and appends to reference logs without removing them first. If an agent replaces them by
// links, the next git outside the cage writes the agent's branch names to a file of the operator's.
func TestLinksInARepositoryAreFound(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	target := filepath.Join(t.TempDir(), "profile")
	must(t, os.WriteFile(target, []byte("precious"), 0o644))
	must(t, os.Symlink("old", root+"/.git/kept"))
	before := compile(t, root, "rw .")
	git(t, root, "checkout", "-q", "-b", "$(x)")
	must(t, os.MkdirAll(root+"/.git/logs/refs/heads/deep", 0o755))
	for _, name := range []string{"COMMIT_EDITMSG", "logs/HEAD", "logs/refs/heads/deep/er"} {
		_ = os.Remove(root + "/.git/" + name)
		must(t, os.Symlink(target, root+"/.git/"+name))
	}
	var got []string
	for _, f := range compile(t, root, "rw .").Since(before) {
		got = append(got, f.Kind+" "+strings.TrimPrefix(f.Path, root+"/.git/"))
		if !strings.Contains(f.Text, "is a link to "+target) {
			t.Errorf("the sentence does not name the target: %s", f.Text)
		}
	}
	want := []string{"git_link COMMIT_EDITMSG", "git_link logs/HEAD", "git_link logs/refs/heads/deep/er"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	git(t, root, "checkout", "-q", "-b", "other")
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), "moving from $(x) to other") {
		t.Errorf("git no longer writes through a link, and the finding is needless: %q, %v", text, err)
	}
}

// A writable grant is searched even if an agent has made it look like a repository's own folder, for which three names
// suffice.
func TestGrantThatLooksLikeARepository(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, grant, root string }{
		{"the project's root", "rw .", ""},
		{"a folder of it", "rw project:/src", "src"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root, _ := repository(t)
			at := filepath.Join(root, tt.root)
			must(t, os.MkdirAll(at, 0o755))
			git(t, root, "init", "-q", filepath.Join(at, "nested"))
			must(t, os.WriteFile(filepath.Join(at, ".envrc"), nil, 0o644))
			want := compile(t, root, tt.grant).Grants
			for _, name := range []string{"objects", "refs"} {
				must(t, os.MkdirAll(filepath.Join(at, name), 0o755))
			}
			must(t, os.WriteFile(filepath.Join(at, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
			got := compile(t, root, tt.grant).Grants
			for _, g := range want {
				if !slices.Contains(got, g) {
					t.Errorf("lacks %+v, which it had before", g)
				}
			}
		})
	}
}

// A repository that was found once stays protected, also in the next process, after so many folders are made that the
// search no longer reaches it.
func TestRemembered(t *testing.T) {
	t.Parallel()
	root, dir := plant(t, "services/foo/.git/HEAD", "services/foo/.git/config", "services/foo/.git/objects/",
		"services/foo/.git/refs/"), t.TempDir()
	compileWith := func(option cage.Option) *cage.View {
		t.Helper()
		v, err := cage.Compile(policy("rw ."), root, option)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	compileWith(cage.Remember(cage.NewMemory(dir)))
	for i := range 600 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/d%d", root, i), 0o755))
	}
	config := root + "/services/foo/.git/config"
	if v := compile(t, root, "rw ."); !v.Allows(config, true) {
		t.Fatal("the search comes to the repository: the test proves nothing")
	}
	for _, option := range []cage.Option{cage.Remember(cage.NewMemory(dir)), cage.Recall(cage.NewMemory(dir))} {
		if v := compileWith(option); v.Allows(config, true) || !v.Partial || len(v.Notes()) != 1 {
			t.Errorf("write %t, partial %t, notes %q", v.Allows(config, true), v.Partial, v.Notes())
		}
	}
	must(t, os.RemoveAll(root+"/services"))
	if v := compileWith(cage.Remember(cage.NewMemory(dir))); v.Allows(root+"/services/foo/.git", true) != true {
		t.Error("what is gone is remembered")
	}
}

// Sockets with a listening process are found in granted folders, read-only ones included; sockets of dead processes are
// not.
func TestSockets(t *testing.T) {
	t.Parallel()
	root := plant(t, "desk/", "docs/deep/", "desk/a/b/")
	listen := func(path string, keep bool) {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if keep {
			t.Cleanup(func() { l.Close() })
			return
		}
		l.Close()
	}
	listen(root+"/desk/a/s", true)
	listen(root+"/desk/dead", false)
	listen(root+"/docs/deep/s", true)
	listen(root+"/outside", true)
	datagram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: root + "/docs/datagram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	v, err := cage.Compile(policy("rw ./desk", "ro ./docs"), root, cage.Sockets())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{root + "/desk/a/s", root + "/docs/datagram", root + "/docs/deep/s"}
	if !slices.Equal(v.Sockets, want) {
		t.Errorf("found %q, want %q", v.Sockets, want)
	}
}

// File tools refuse each protected name, in every folder and spelling, unless the policy names it.
func TestReserved(t *testing.T) {
	t.Parallel()
	root := plant(t, ".git/HEAD", ".git/config", ".git/objects/", ".git/refs/", "src/", ".vscode/x")
	v := compile(t, root, "rw .", "rw ./.vscode")
	for _, p := range dsl.ProtectedNames {
		for _, name := range []string{p.Name, "src/" + p.Name, strings.ToUpper(p.Name), p.Name + "/inside"} {
			want := name != ".git/inside" && name != ".vscode" && name != ".vscode/inside" && name != ".git"
			if _, got := v.Reserved(filepath.Join(root, name)); got != want {
				t.Errorf("%s: reserved %v, want %v", name, got, want)
			}
		}
	}
	for name, want := range map[string]bool{
		".git/index": false, ".git/hooks/pre-commit": true, ".git/HOOKS/x": true, ".GIT/index": true, "src/.git/HEAD": true,
		".g\u200cit/index":         true,
		".\u212aaged/project.yaml": true, ".envrc.": true, ".gitignore": false, "src/main.go": false, "src/.github/x": false,
		".git/modules/x/config": true,
	} {
		if _, got := v.Reserved(filepath.Join(root, name)); got != want {
			t.Errorf("%s: reserved %v, want %v", name, got, want)
		}
	}
}

// A nested work tree stays protected, by a search and by memory, if an agent has made it look like a repository's own
// folder.
func TestWorkTreeThatLooksLikeARepository(t *testing.T) {
	t.Parallel()
	root := plant(t, "nested/.git/HEAD", "nested/.git/config", "nested/.git/objects/", "nested/.git/refs/",
		"nested/.envrc", "nested/objects/", "nested/refs/", "nested/HEAD")
	nested := root + "/nested/"
	check := func(name string, v *cage.View) {
		t.Helper()
		for _, file := range []string{".envrc", ".git/config", ".git/hooks/post-checkout"} {
			if v.Allows(nested+file, true) {
				t.Errorf("%s: %s can be written", name, file)
			}
		}
		if !v.Allows(nested+"main.go", true) || v.GitReadOnly == v.Allows(nested+".git/index", true) {
			t.Errorf("%s: the rest is not as granted", name)
		}
	}
	check("writable", compile(t, root, "rw ."))
	readOnly := policy("rw .")
	readOnly.Git = dsl.GitReadOnly
	v, err := cage.Compile(readOnly, root)
	must(t, err)
	check("read_only", v)

	memory := t.TempDir()
	_, err = cage.Compile(policy("rw ."), root, cage.Remember(cage.NewMemory(memory)))
	must(t, err)
	for i := range 600 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/d%d", root, i), 0o755))
	}
	v, err = cage.Compile(policy("rw ."), root, cage.Recall(cage.NewMemory(memory)))
	must(t, err)
	check("remembered", v)
}

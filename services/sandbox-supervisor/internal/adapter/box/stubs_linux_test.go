package box_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// compile returns the view of a writable project.
func compile(t testing.TB, dir string) *cage.View {
	t.Helper()
	view, err := cage.Compile(&dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "project:/"}}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func openView(t testing.TB, b *box.Boxes, view *cage.View) core.Box {
	t.Helper()
	x, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: view}, func(contract.Attempt) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// names returns the paths of all files below a folder.
func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			list = append(list, path[len(dir)+1:])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A missing protected path cannot be created in a cage (CVE-2026-25725). Its stub is removed with the last cage that
// relies on it, unless it was filled from outside.
func TestStubs(t *testing.T) {
	t.Parallel()
	dir := project(t)
	// the last is the project's own, although empty like a stub
	plant(t, dir, ".git/HEAD", ".git/objects/", ".git/refs/", ".vscode/")
	before := names(t, dir)
	journals := t.TempDir()
	b := boxes(t, func(o *box.Options) { o.Dir = journals })
	first := openView(t, b, compile(t, dir))
	second := openView(t, b, compile(t, dir)) // it counts the stubs of the first as existing files
	for _, x := range []core.Box{first, second} {
		for _, command := range []string{
			"echo x >.git/hooks/pre-commit", "echo x >.git/config", "mkdir -p .kaged/agents",
			"mv .git .tig", "rm -r .kaged",
		} {
			if out, end := run(t, x, dir, command); end.Code == 0 {
				t.Errorf("%s: the end is %v, %s", command, end, out)
			}
		}
	}
	first.Close()
	if out, end := run(t, second, dir, "mkdir .kaged/x"); end.Code == 0 {
		t.Errorf("a cage outlived by another's stub: %v, %s", end, out)
	}
	write(t, dir+"/.kaged/mine", "", 0o600)
	second.Close()
	want := append(slices.Clone(before), ".kaged", ".kaged/mine")
	slices.Sort(want)
	got := names(t, dir)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
	if left := names(t, journals); len(left) != 0 {
		t.Errorf("remaining journals: %v", left)
	}
}

// Stubs of a killed supervisor are removed at the next start, except those that another supervisor's cage relies on;
// they go later.
func TestStubsOfTheKilled(t *testing.T) {
	t.Parallel()
	dir := project(t)
	plant(t, dir, "file")
	journals := t.TempDir()
	b := boxes(t, func(o *box.Options) { o.Dir = journals })
	write(t, journals+"/killed.stubs", `[{"path":"`+dir+`/.kaged","dir":true},{"path":"`+dir+`/commondir","text":".\n"},
		{"path":"`+dir+`/used"}]`, 0o600)
	write(t, journals+"/cut.stubs", `[{"path":"`, 0o600)
	plant(t, dir, ".kaged/")
	write(t, dir+"/commondir", ".\n", 0o600)
	write(t, dir+"/used", "by somebody", 0o600)
	// represents another process: it holds its own lock on the path
	other := openView(t, boxes(t), compile(t, dir))
	b.Sweep()
	if _, err := os.Stat(dir + "/.kaged"); err != nil {
		t.Errorf("a stub that a cage relies on is gone: %v", err)
	}
	other.Close()
	b.Sweep()
	if got := names(t, dir); !slices.Equal(got, []string{"file", "used"}) {
		t.Errorf("files are %v", got)
	}
	if left := names(t, journals); len(left) != 0 {
		t.Errorf("remaining journals: %v", left)
	}
}

// The end of a cage with stubs also removes stubs left by others in its data directory: those of killed supervisors,
// and those that another cage relied on.
func TestStubsOfOthers(t *testing.T) {
	t.Parallel()
	dir, journals := project(t), t.TempDir()
	killed := project(t)
	write(t, journals+"/killed.stubs", `[{"path":"`+killed+`/.kaged","dir":true}]`, 0o600)
	plant(t, killed, ".kaged/")
	in := func(o *box.Options) { o.Dir = journals }
	first, second := boxes(t, in), boxes(t, in)
	made := openView(t, first, compile(t, dir))
	relies := openView(t, second, compile(t, dir)) // relies on stubs of the first
	made.Close()
	if got := names(t, dir); len(got) == 0 {
		t.Error("a stub that a cage relies on is gone")
	}
	if got := names(t, killed); len(got) != 0 {
		t.Errorf("stubs of the killed supervisor are still there: %v", got)
	}
	relies.Close()
	for _, dir := range []string{dir, journals} {
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("files are %v", got)
		}
	}
}

// With persistent state an agent's home is kept for its next cage. It belongs to the data directory's owner, and no
// other agent sees it.
func TestPersistentState(t *testing.T) {
	t.Parallel()
	dir, data := project(t), project(t)
	b := boxes(t, func(o *box.Options) { o.Dir = data })
	try := func(state string, persistent bool, command string) string {
		view := &cage.View{Grants: []cage.Grant{rw(dir)}, Persistent: persistent}
		x, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: view, State: state}, func(contract.Attempt) {})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		out, _ := run(t, x, dir, command)
		return out
	}
	const look = "cat ~/kept 2>/dev/null || echo nothing"
	try("a", true, "echo mine >~/kept; echo tmp >/tmp/kept")
	for _, c := range []struct {
		state      string
		persistent bool
		want       string
	}{{"a", true, "mine\n"}, {"b", true, "nothing\n"}, {"a", false, "nothing\n"}, {"a", true, "mine\n"}} {
		if got := try(c.state, c.persistent, look); got != c.want {
			t.Errorf("%v: it wrote %q", c, got)
		}
	}
	if info, err := os.Stat(data + "/a/home/kept"); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		t.Errorf("the kept home is %v, %v", info, err)
	}
	if got := try("a", true, "cat /tmp/kept || echo nothing"); !strings.HasSuffix(got, "nothing\n") {
		t.Errorf("outside the home: %q", got)
	}
}

package box_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// plant makes files, and folders for names that end in a slash.
func plant(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write(t, p, name, 0o644)
	}
}

// The deepest grant decides about a path, regardless of the grants' order: read-only below writable, writable below
// read-only, and files.
func TestNestedGrants(t *testing.T) {
	t.Parallel()
	dir := project(t)
	plant(t, dir, "ro/file", "ro/rw/file", "ro/rw/ro/file", "one", "two", "hidden/seen/file", "hidden/not")
	b := open(t, boxes(t),
		cage.Grant{Path: dir + "/one"}, ro(dir+"/ro", false), rw(dir+"/ro/rw"), rw(dir), ro(dir+"/ro/rw/ro", false))
	for path, writable := range map[string]bool{
		"x": true, "ro/x": false, "ro/rw/x": true, "ro/rw/ro/x": false,
		"one": false, "two": true, "ro/file": false, "ro/rw/file": true,
	} {
		if _, end := run(t, b, dir, "echo x >>"+path); (end.Code == 0) != writable {
			t.Errorf("writing %s: the end is %v", path, end)
		}
	}
	deep := open(t, boxes(t), ro(dir+"/hidden/seen", false), cage.Grant{Path: dir + "/two", Writable: true})
	out, _ := run(t, deep, dir+"/hidden", "ls -A .. . seen; cat ../two; echo more >>../two; touch x ../x ../../x")
	want := ".:\nseen\n\n..:\nhidden\ntwo\n\nseen:\nfile\ntwo"
	if !strings.HasPrefix(out, want) || strings.Count(out, "Read-only") != 3 {
		t.Errorf("it wrote %q", out)
	}
}

// Neither a protected folder nor its parents can be moved away and replaced.
func TestPinned(t *testing.T) {
	t.Parallel()
	dir := project(t)
	plant(t, dir, ".git/hooks/", ".git/config", ".git/other")
	b := open(t, boxes(t), rw(dir), cage.Grant{Path: dir + "/.git", Dir: true, Writable: true, Pinned: true},
		cage.Grant{Path: dir + "/.git/hooks", Dir: true, Protected: true},
		cage.Grant{Path: dir + "/.git/config", Protected: true})
	for _, command := range []string{
		"mv .git .tig", "mv .git/hooks .git/skooh", "rm -r .git/hooks",
		"touch .git/hooks/x", "echo x >>.git/config", "mv .git/config .git/x",
		"mv .git/other .git/config", "ln -f .git/other .git/config", "chmod 777 .git/hooks",
	} {
		if out, end := run(t, b, dir, command); end.Code == 0 {
			t.Errorf("%s: the end is %v, %s", command, end, out)
		}
	}
	if out, end := run(t, b, dir, "echo x >.git/new && mv .git/new .git/newer && rm .git/newer"); end.Code != 0 {
		t.Errorf("working in the folder around: %v, %s", end, out)
	}
}

// Hidden paths of kaged are covered below a system path, too.
func TestHidden(t *testing.T) {
	t.Parallel()
	system, err := os.MkdirTemp("", "kaged-box-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(system) })
	if err := os.Chmod(system, 0o755); err != nil { // system paths are world-readable
		t.Fatal(err)
	}
	plant(t, system, "data/secret", "config", "other")
	b := open(t, boxes(t, func(o *box.Options) {
		o.System = append(o.System, system)
		for _, path := range []string{system + "/data", system + "/config", system + "/data/missing", "/missing"} {
			o.Hidden = append(o.Hidden, testkit.Own(t, path))
		}
	}))
	out, _ := run(t, b, "/", "cd "+system+" && ls -A . data && cat config other; touch data/x")
	if !strings.HasPrefix(out, ".:\nconfig\ndata\nother\n\ndata:\nother") || !strings.Contains(out, "Read-only") {
		t.Errorf("it wrote %q", out)
	}
}

// A path that has changed since the policy was compiled is refused, and so is one that no cage may have (the races of
// CVE-2021-30465 and CVE-2025-31133).
func TestRefusedPaths(t *testing.T) {
	t.Parallel()
	dir, other := project(t), project(t)
	plant(t, dir, "folder/inner/", "file")
	if err := os.Symlink(other, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	b := boxes(t)
	for words, grant := range map[string]cage.Grant{
		"there is a link in it":        rw(dir + "/link"),
		"no such file or directory":    rw(dir + "/missing"),
		"it is no folder any more":     rw(dir + "/file"),
		"it is no file":                {Path: dir + "/folder"},
		"without dots":                 rw(dir + "/folder/../folder"),
		"a cage has its own /proc":     {Path: "/proc/sys", Dir: true},
		"a cage has its own /dev":      {Path: "/dev", Dir: true},
		"not a path below the root":    rw("/"),
		"a path below the root withou": rw("relative"),
	} {
		refused(t, b, fault.CagePolicyInvalid, words, grant)
	}
	// A link in place of a component, then of the path itself.
	grant := rw(dir + "/folder/inner")
	if err := os.Rename(dir+"/folder", dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	plant(t, other, "inner/canary")
	if err := os.Symlink(other, dir+"/folder"); err != nil {
		t.Fatal(err)
	}
	refused(t, b, fault.CagePolicyInvalid, "there is a link in it", grant)
}

// refused expects the error code for a cage with grants, with words in the text.
func refused(t *testing.T, b *box.Boxes, code fault.Code, words string, grants ...cage.Grant) {
	t.Helper()
	opened, err := b.Open(t.Context(),
		core.BoxSpec{ID: ident.New(), View: &cage.View{Grants: grants}}, func(contract.Attempt) {})
	if err == nil {
		opened.Close()
	}
	if !errors.Is(err, code) || !strings.Contains(err.Error(), words) {
		t.Errorf("%v: %v, want %s with %q", grants, err, code, words)
	}
}

// While a path component alternates between a folder and a link to another folder, a cage gets the granted folder or is
// refused; it never reads or writes the other folder.
func TestSwappedWhileOpening(t *testing.T) {
	t.Parallel()
	dir, other := project(t), project(t)
	plant(t, dir, "real/a/b/mine", "swap")
	plant(t, other, "a/b/canary")
	if err := os.Remove(dir + "/swap"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, dir+"/swap"); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir+"/real", unix.AT_FDCWD, dir+"/swap", unix.RENAME_EXCHANGE)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	b := boxes(t)
	opened, refusals := 0, 0
	for opened < 5 || refusals < 5 {
		grants := []cage.Grant{rw(dir + "/real/a"), ro(dir+"/real/a/b", false)}
		x, err := b.Open(t.Context(), core.BoxSpec{ID: ident.New(), View: &cage.View{Grants: grants}},
			func(contract.Attempt) {})
		if err != nil {
			if !errors.Is(err, fault.CagePolicyInvalid) {
				t.Fatal(err)
			}
			refusals++
			continue
		}
		opened++
		out, _ := run(t, x, "/", "ls "+dir+"/real/a/b; touch "+dir+"/real/a/new")
		x.Close()
		if out != "mine\n" {
			t.Fatalf("it wrote %q", out)
		}
	}
	if _, err := os.Stat(other + "/a/new"); err == nil {
		t.Error("a file was made elsewhere")
	}
}

// Tracing needs the relaxed profile, and never reaches the cage's init.
func TestRelaxed(t *testing.T) {
	t.Parallel()
	dir := project(t)
	for _, relaxed := range []bool{false, true} {
		view := &cage.View{Grants: []cage.Grant{rw(dir)}, Relaxed: relaxed}
		x, err := boxes(t).Open(t.Context(), core.BoxSpec{ID: ident.New(), View: view}, func(contract.Attempt) {})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		out, _ := run(t, x, dir, `python3 -c '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*args): return "ok" if libc.ptrace(*args) == 0 else os.strerror(ctypes.get_errno())
print(call(16, 1, 0, 0), "|", call(0, 0, 0, 0))'`)
		want := "Operation not permitted | Operation not permitted\n"
		if relaxed {
			want = "Operation not permitted | ok\n"
		}
		if out != want {
			t.Errorf("relaxed %v: it wrote %q, want %q", relaxed, out, want)
		}
	}
}

// A system call of another architecture kills the program with SIGSYS, and the end names seccomp.
func TestForeignCalls(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("uname", "-m").Output(); err != nil || strings.TrimSpace(string(out)) != "x86_64" {
		return // other architectures have no foreign calls
	}
	dir := project(t)
	// mov $20, %eax; int $0x80; xor %ebx, %ebx; mov $1, %eax; int $0x80: getpid and exit by the 32-bit ABI.
	program := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x31, 0xdb, 0xb8, 1, 0, 0, 0, 0xcd, 0x80}
	testkit.WriteProgram(t, dir+"/foreign", elf(program))
	b := open(t, boxes(t), rw(dir))
	_, end := run(t, b, dir, "", func(s *core.Spec) { s.Argv = []string{dir + "/foreign"} })
	if end.Signal != unix.SIGSYS || end.Hit != contract.ReasonSeccomp {
		t.Errorf("the end is %v", end)
	}
}

// elf returns a minimal executable with this code: one header, one segment.
func elf(code []byte) []byte {
	const base, header = 0x400000, 64 + 56
	size := byte(header + len(code))
	program := []byte{
		0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0,
		header, 0, 0x40, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0,
		size, 0, 0, 0, 0, 0, 0, 0, size, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
	}
	return append(program, code...)
}

package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

type writeResult struct {
	Path         string
	BytesWritten int `json:"bytes_written"`
	Created      bool
	Diff         string
}

// A new file is written with its folders. The answer names it as created and has the diff (T-FILE-WRITE-01..03,
// TN-FILE-4).
func TestWriteANewFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var r writeResult
	o := b.ok("file.write", in{"path": "./a/b/c/new.ts", "content": "line\n"}, &r)
	if r.Path != "./a/b/c/new.ts" || r.BytesWritten != 5 || !r.Created || b.content("a/b/c/new.ts") != "line\n" {
		t.Errorf("wrote %+v", r)
	}
	if want := "--- a/a/b/c/new.ts\n+++ b/a/b/c/new.ts\n@@ -0,0 +1 @@\n+line\n"; r.Diff != want {
		t.Errorf("diff %q", r.Diff)
	}
	if w := b.record(o, "file.written"); w["path"] != "./a/b/c/new.ts" || w["bytes"] != 5 {
		t.Errorf("record %v", w)
	}
	b.ok("file.write", in{"path": "./a/b/c/new.ts", "content": "its writer knows it\n"}, &r)
	if r.Created || b.content("a/b/c/new.ts") != "its writer knows it\n" {
		t.Errorf("rewrote %+v", r)
	}
	b.ok("write", in{"path": "flat", "content": ""}, &r)
	b.ok("write_file", in{"path": "flat2", "content": "x"}, &r)
	b.fails(fault.InvalidParams, "file.write", in{"path": "x"})
	if left, _ := filepath.Glob(filepath.Join(b.root, "a/b/c/.*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An unread file is not overwritten; a file that was read is replaced completely (T-FILE-WRITE-04, -05,
// T-FILE-READ-11).
func TestWriteNeedsARead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.write("f", strings.Repeat("old and long\n", 100))
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	if f := b.fails(fault.FileNotRead, "file.write", in{
		"path":    "f",
		"content": "new",
	}); f.Msg != "Read the file before overwriting it." {
		t.Errorf("message %q", f.Msg)
	}
	b.ok("file.read", in{"path": "f", "limit": 1}, nil)
	other := *b
	other.from.Agent = "primary.subagents.x"
	other.fails(fault.FileNotRead, "file.write", in{"path": "f", "content": "another agent has not read it"})
	var r writeResult
	b.ok("file.write", in{"path": "f", "content": "new"}, &r)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.content("f") != "new" || r.Created || info.Mode() != 0o751 {
		t.Errorf("%q with mode %v", b.content("f"), info.Mode())
	}
}

// Neither a write nor an edit overwrites changes by others (T-FM-07). Files are not watched: a change is noticed at the
// next call, and the agent must read the file again (T-REG-33).
func TestWriteKeepsOthersChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("f", "one\n")
	b.ok("file.read", in{"path": "f"}, nil)
	b.write("f", "one, changed\n")
	b.fails(fault.FileChangedSinceRead, "file.write", in{"path": "f", "content": "x"})
	b.fails(fault.FileChangedSinceRead, "edit.text", in{"path": "f", "old_string": "one", "new_string": "two"})
	if b.content("f") != "one, changed\n" {
		t.Errorf("content %q", b.content("f"))
	}
	b.ok("file.read", in{"path": "f"}, nil)
	b.ok("edit.text", in{"path": "f", "old_string": "one", "new_string": "two"}, nil)
}

// A file has one read record for all its names, and a link stays a link.
func TestWriteThroughALink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("dir/real", "a\n")
	b.link("dir/real", "link")
	b.link("dir/new", "dangling")
	b.link("/etc/cron.d/x", "escape")
	b.ok("file.read", in{"path": "link"}, nil)
	b.ok("file.write", in{"path": "dir/real", "content": "b\n"}, nil)
	b.ok("edit.text", in{"path": "link", "old_string": "b", "new_string": "c"}, nil)
	b.ok("file.write", in{"path": "dangling", "content": "d\n"}, nil)
	if b.content("dir/real") != "c\n" || b.content("dir/new") != "d\n" {
		t.Errorf("real %q, new %q", b.content("dir/real"), b.content("dir/new"))
	}
	if target, err := os.Readlink(filepath.Join(b.root, "link")); err != nil || target != "dir/real" {
		t.Errorf("the link is %q, %v", target, err)
	}
	b.fails(fault.InvalidParams, "file.write", in{"path": "escape", "content": "x"})
	b.fails(fault.InvalidParams, "file.create", in{"path": "../outside", "content": "x"})
}

// Irregular files are not written.
func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := unix.Mkfifo(filepath.Join(b.root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.write("file", "")
	for path, code := range map[string]fault.Code{
		"pipe": fault.FileNotRegular, ".": fault.FileNotRegular, "file/below": fault.FileNotRegular, "": fault.InvalidParams,
	} {
		b.fails(code, "file.write", in{"path": path, "content": "x"})
	}
	b.fails(fault.FileExists, "file.create", in{"path": "pipe", "content": "x"})
}

// An existing file is not created again (T-FILE-CREATE-01..03, TN-FILE-9).
func TestCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var r writeResult
	b.ok("file.create", in{"path": "./x/y/z.txt", "content": "new\n"}, &r)
	if !r.Created || r.BytesWritten != 4 || b.content("x/y/z.txt") != "new\n" {
		t.Errorf("created %+v", r)
	}
	b.fails(fault.FileExists, "file.create", in{"path": "./x/y/z.txt", "content": "other"})
	b.fails(fault.FileExists, "file.create", in{"path": "x", "content": "other"})
	if b.content("x/y/z.txt") != "new\n" {
		t.Errorf("content %q", b.content("x/y/z.txt"))
	}
}

// Of many calls that create the same file exactly one succeeds, and the file has its content (T-FM-12 for creation).
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var group sync.WaitGroup
	won := make(chan string, 20)
	for i := range 20 {
		group.Go(func() {
			content := fmt.Sprintf("by %d", i)
			o, err := b.do(t.Context(), "file.create", in{"path": "f", "content": content})
			if err == nil && o.Fault == nil {
				won <- content
			}
		})
	}
	group.Wait()
	if len(won) != 1 || b.content("f") != <-won {
		t.Errorf("%d created the file, which holds %q", len(won), b.content("f"))
	}
}

// A caged agent can neither write nor create files that make tools outside the cage run code, even in a writable
// folder. The refusal has the reason. The agent's policy can grant the file by name, and without a cage no file is
// protected.
func TestProtectedInACage(t *testing.T) {
	t.Parallel()
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "."}}}
	b := caged(t, policy)
	for _, name := range []string{
		".git/config", ".git/HEAD", ".git/objects/x", ".git/refs/x", ".git/hooks/pre-commit", ".kaged/project.yaml", ".envrc",
	} {
		b.write(name, "old\n")
	}
	for path, place := range map[string]string{
		".git/config": "./.git/config", "./.git/hooks/pre-commit": "./.git/hooks", ".git/hooks/post-merge": "./.git/hooks",
		".git/commondir":      "./.git/commondir",
		".kaged/project.yaml": "./.kaged", ".envrc": "./.envrc", ".vscode/tasks.json": "./.vscode",
		".mcp.json": "./.mcp.json", "mise.local.toml": "./mise.local.toml",
		"mise.prod.toml": "./mise.prod.toml", ".tool-versions": "./.tool-versions",
		"deep/rust-toolchain.toml": "./deep/rust-toolchain.toml", "lefthook-local.yml": "./lefthook-local.yml",
		".nvim.lua":   "./.nvim.lua",
		".GIT/config": "./.GIT/config", ".Kaged/project.yaml": "./.Kaged", "deep/.ENVRC": "./deep/.ENVRC",
		"deep/.git/HEAD":    "./deep/.git",
		".husky/pre-commit": "./.husky", "deep/.husky/pre-commit": "./deep/.husky", ".opencode/opencode.json": "./.opencode",
	} {
		for tool, params := range map[string]in{
			"file.write": {"path": path, "content": "x"}, "edit.text": {"path": path, "old_string": "old", "new_string": "x"},
			"edit.patch": {"patch": "*** Begin Patch\n*** Add File: " + path + "\n+x\n*** End Patch\n"},
		} {
			f := b.fails(fault.CapabilityDenied, tool, params)
			if f.Details["protected"] != place ||
				!strings.Contains(f.Msg, place+" is protected, because tools outside the cage run code") {
				t.Errorf("%s %s: %v", tool, path, f)
			}
		}
	}
	b.write("movable", "old\n")
	b.fails(fault.CapabilityDenied, "edit.patch", in{
		"patch": "*** Begin Patch\n*** Update File: movable\n*** Move to: deep/.mcp.json\n@@\n-old\n+x\n*** End Patch\n",
	})
	if b.content(".git/config") != "old\n" || b.content(".vscode/tasks.json") != "(none)" {
		t.Error("a denied write wrote")
	}
	b.ok("file.read", in{"path": ".git/config"}, nil)
	b.ok("file.write", in{"path": ".git/description", "content": "x"}, nil)
	policy.FS = append(policy.FS, dsl.Mount{Mode: "rw", Path: "./.envrc"})
	b.ok("file.read", in{"path": ".envrc"}, nil)
	b.ok("file.write", in{"path": ".envrc", "content": "x"}, nil)
	b.from.Cage = nil
	b.ok("file.read", in{"path": ".git/config"}, nil)
	b.ok("file.write", in{"path": ".git/config", "content": "x"}, nil)
}

// A change of a file that the cage grants by itself keeps the file and its inode, because the cage mounts the file
// itself and not its name.
func TestGrantedFileStaysItself(t *testing.T) {
	t.Parallel()
	b := caged(t, &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "./notes"}, {Mode: "rw", Path: "./src"}}})
	b.write("src/x", "old\n")
	path := b.write("notes", "old\n")
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	for tool, params := range map[string]in{
		"file.write": {"path": "notes", "content": "old and new\n"},
		"edit.text":  {"path": "notes", "old_string": "old", "new_string": "old and newer"},
	} {
		b.ok("file.read", in{"path": "notes"}, nil)
		b.ok(tool, params, nil)
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s made another file of it: %v", tool, err)
		}
	}
	if !strings.Contains(b.content("notes"), "new") {
		t.Error(b.content("notes"))
	}
	b.ok("file.write", in{"path": "notes", "content": "last\n"}, nil)
	b.ok("file.read", in{"path": "src/x"}, nil)
	for _, patch := range []string{
		"*** Delete File: notes\n", "*** Update File: notes\n*** Move to: src/moved\n@@\n-last\n+x\n",
		"*** Delete File: notes\n*** Update File: src/x\n*** Move to: notes\n",
	} {
		f := b.fails(fault.CapabilityDenied, "edit.patch", in{"patch": "*** Begin Patch\n" + patch + "*** End Patch\n"})
		if f.Details["required"] != "rw:fs:./notes" || b.content("src/moved") != "(none)" {
			t.Error(f)
		}
	}
	if b.content("notes") != "last\n" {
		t.Error(b.content("notes"))
	}
}

// A policy that names a missing path, or a link, grants no access: every call with a path fails with the reason why the
// policy is invalid.
func TestPolicyThatCannotBe(t *testing.T) {
	t.Parallel()
	b := caged(t, &dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "./gone"}}})
	b.write("src/x", "x\n")
	for tool, params := range map[string]in{
		"file.read": {"path": "src/x"}, "file.write": {"path": "src/y", "content": ""}, "search.grep": {"pattern": "x"},
		"file.list": {"path": "src"},
	} {
		f := b.fails(fault.CagePolicyInvalid, tool, params)
		if f.Details["field"] != "cage.fs[1].path" || !strings.Contains(f.Msg, "nothing at ./gone") {
			t.Errorf("%s: %v", tool, f)
		}
	}
	b.link("src", "gone")
	if f := b.fails(fault.CagePolicyInvalid, "file.read",
		in{"path": "src/x"}); !strings.Contains(f.Msg, "is a link; a cage grants real paths: write "+b.root+"/src") {
		t.Error(f)
	}
}

// A write needs a writable mount. The deepest mount counts (T-PERM-03, T-ARCH-10, T-RES-11, TN-PERM-2, T-FILE-WRITE-06,
// T-FILE-CREATE-04, T-EDIT-TEXT-09, T-FM-08).
func TestWriteInACage(t *testing.T) {
	t.Parallel()
	b := caged(t, &dsl.Cage{
		FS: []dsl.Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "./src/vendor"}, {Mode: "ro", Path: "./docs"}},
	})
	b.write("docs/a.md", "a\n")
	b.write("src/vendor/v", "v\n")
	b.write("src2/x", "x\n")
	b.ok("file.write", in{"path": "./src/new/file", "content": "x"}, nil)
	b.ok("file.read", in{"path": "docs/a.md"}, nil)
	b.ok("file.read", in{"path": "src/vendor/v"}, nil)
	for _, path := range []string{"./docs/a.md", "./data/x", "./src/vendor/v", "./src2/x", "README.md"} {
		f := b.fails(fault.CapabilityDenied, "file.write", in{"path": path, "content": "x"})
		if f.Details["required"] != "rw:fs:"+path {
			t.Errorf("%s: details %v", path, f.Details)
		}
		b.fails(fault.CapabilityDenied, "file.create", in{"path": path, "content": "x"})
		b.fails(fault.CapabilityDenied, "edit.text", in{"path": path, "old_string": "a", "new_string": "b"})
	}
	if b.content("data/x") != "(none)" || b.content("docs/a.md") != "a\n" {
		t.Error("a denied write wrote")
	}
}

// The operator's denied paths take precedence over all grants; allowed paths extend the project (T-PATH-01..06, S6.10,
// S6.11, S6.12, T-BI-03).
func TestOperatorsBoundaries(t *testing.T) {
	t.Parallel()
	extra := t.TempDir()
	b := newBench(t, func(b *bench) {
		b.rules.Allowed = []string{extra + "/**", "~/shared", "/nowhere/at/all"}
		b.rules.Denied = []string{"secrets", filepath.Join(extra, "denied"), "**/.env", "~/shared/key"}
		b.rules.Home = b.env["HOME"]
		for _, dir := range []string{filepath.Join(extra, "denied"), filepath.Join(b.env["HOME"], "shared")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	})
	b.write("secrets/key", "k\n")
	b.write("sub/.env", "TOKEN=x\n")
	b.link("secrets", "innocent")
	b.link(extra, "out")
	home := b.env["HOME"]
	for _, path := range []string{filepath.Join(extra, "new"), filepath.Join(home, "shared", "x"), "out/through"} {
		b.ok("file.write", in{"path": path, "content": "x"}, nil)
		b.ok("file.read", in{"path": path}, nil)
	}
	for _, path := range []string{
		"secrets/key", "secrets", "sub/.env", "innocent/key", filepath.Join(extra, "denied/x"), "out/denied/x",
		filepath.Join(home, "shared/key"),
	} {
		f := b.fails(fault.CapabilityDenied, "file.write", in{"path": path, "content": "x"})
		if f.Details["required"] != "rw:fs:"+path || f.Details["denied_by"] == nil {
			t.Errorf("%s: %v", path, f.Details)
		}
		b.fails(fault.CapabilityDenied, "file.read", in{"path": path})
	}
	b.fails(fault.InvalidParams, "file.read", in{"path": filepath.Join(home, "other")})
	var listed struct {
		Count   int
		Content string
	}
	if b.ok("file.list", in{"path": "."}, &listed); listed.Count != 3 { // innocent, out and sub
		t.Errorf("a listing shows denied files: %v", listed)
	}
	if b.ok("file.read", in{"path": "sub"}, &listed); listed.Content != "" {
		t.Errorf("a listing shows denied files: %v", listed)
	}
	var found struct{ Matches []struct{ File string } }
	b.ok("search.grep", in{"pattern": "TOKEN|^k$"}, &found)
	if len(found.Matches) > 0 {
		t.Errorf("a search shows denied files: %v", found)
	}
}

// Denied paths take precedence over the root as an allowed path, by each of their names (T-PATH-03, -04, -05).
func TestDeniedWinsOverEverythingAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) {
		b.rules.Allowed = []string{"/"}
		b.rules.Denied = []string{"~/.ssh", "~/.gnupg", "/etc/shadow", "/etc/passwd"}
		b.rules.Home = b.env["HOME"]
		for _, dir := range []string{".ssh", ".gnupg"} {
			if err := os.MkdirAll(filepath.Join(b.env["HOME"], dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	})
	home := b.env["HOME"]
	b.link(home, "home")
	for _, path := range []string{
		"/etc/shadow", "/etc/passwd", "/etc/../etc/passwd", home + "/.ssh/id", home + "/.gnupg", "../home/.ssh/id",
		"home/.ssh/new", "home/../home/.ssh",
	} {
		b.fails(fault.CapabilityDenied, "read_file", in{"path": path})
		b.fails(fault.CapabilityDenied, "write_file", in{"path": path, "content": "x"})
		b.fails(fault.CapabilityDenied, "list_directory", in{"path": path})
		b.fails(fault.CapabilityDenied, "apply_patch", envelope("*** Add File: "+path+"\n+x\n"))
	}
	b.ok("list_directory", in{"path": home}, nil)
}

// The flat names write and edit are the same tools: they create folders, an overwrite needs a read, and old_text must
// occur exactly once (T-T20-WRITE-01, T-T20-EDIT-01, -02).
func TestFlatWriteAndEdit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("write", in{"path": "a/b/f", "content": "one two\ntwo\n"}, nil)
	b.write("old", "x\n")
	b.fails(fault.FileNotRead, "write", in{"path": "old", "content": "y"})
	b.ok("read", in{"path": "old"}, nil)
	b.ok("write", in{"path": "old", "content": "y"}, nil)
	for _, missing := range []string{"path", "old_text", "new_text"} {
		params := in{"path": "a/b/f", "old_text": "one", "new_text": "1"}
		delete(params, missing)
		b.fails(fault.InvalidParams, "edit", params)
	}
	b.fails(fault.OldStringNotFound, "edit", in{"path": "a/b/f", "old_text": "three", "new_text": "3"})
	b.fails(fault.MultipleMatches, "edit", in{"path": "a/b/f", "old_text": "two", "new_text": "2"})
	b.ok("edit", in{"path": "a/b/f", "old_text": "one two", "new_text": "1"}, nil)
	if b.content("old") != "y" || b.content("a/b/f") != "1\ntwo\n" {
		t.Errorf("left %v", b.files())
	}
}

// A folder is listed with types and sizes (T-T20-LS-01).
func TestList(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.ListEntries = 4 })
	b.write("d/file", "12345")
	b.write("d/sub/x", "")
	b.link("file", "d/link")
	if err := unix.Mkfifo(filepath.Join(b.root, "d/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name, Type string
		Size       int64
	}
	var r struct {
		Path      string
		Entries   []entry
		Count     int
		Truncated bool
	}
	b.ok("ls", in{"path": "d"}, &r)
	want := []entry{{"file", "file", 5}, {"link", "link", 4}, {"pipe", "other", 0}}
	if len(r.Entries) != 4 || r.Entries[0] != want[0] || r.Entries[1] != want[1] || r.Entries[2] != want[2] ||
		r.Entries[3].Type != "dir" || r.Truncated {
		t.Errorf("listed %+v", r)
	}
	b.write("d/zz", "")
	if b.ok("file.list", in{"path": "./d"}, &r); !r.Truncated || r.Count != 4 || r.Path != "./d" {
		t.Errorf("listed %+v", r)
	}
	if b.ok("file.list", in{}, &r); r.Path != "./" || r.Count != 1 {
		t.Errorf("the root: %+v", r)
	}
	b.ok("list_directory", in{"path": "d/sub"}, &r)
	b.fails(fault.InvalidParams, "file.list", in{"path": "d/file"})
	b.fails(fault.FileNotFound, "file.list", in{"path": "nope"})
	b.fails(fault.InvalidParams, "ls", in{})
}

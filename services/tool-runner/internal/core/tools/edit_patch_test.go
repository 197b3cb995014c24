package tools_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

type patchResult struct {
	Files []struct {
		Path, Action          string
		MovedTo               string `json:"moved_to"`
		Hunks, Added, Removed int
		Notes                 []string
		Diff                  string
	}
}

// envelope returns the parameters of a patch with these sections.
func envelope(sections ...string) in {
	return in{"patch": "*** Begin Patch\n" + strings.Join(sections, "") + "*** End Patch"}
}

// files returns the content of every file of the project, with links and modes.
func (b *bench) files() map[string]string {
	b.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(b.root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(b.root, name)
		found[rel] = e.Type().String()
		if e.Type().IsRegular() {
			found[rel] = b.content(rel)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// A moved file keeps its mode, even if it replaces another file.
func TestPatchMovesModes(t *testing.T) {
	t.Parallel()
	update := func(from, to string) string { return "*** Update File: " + from + "\n*** Move to: " + to + "\n" }
	for name, c := range map[string]struct {
		sections []string
		want     map[string]string
	}{
		"over a deleted file": {[]string{"*** Delete File: a\n", update("b.sh", "a")}, map[string]string{"a": "b.sh 0755"}},
		"with a change": {
			[]string{"*** Delete File: a\n", update("b.sh", "a") + "-b.sh\n+changed\n"}, map[string]string{"a": "changed 0755"},
		},
		"over a file with another name": {
			[]string{"*** Delete File: linked\n", update("b.sh", "linked")},
			map[string]string{"linked": "b.sh 0755", "other": "linked 0600"},
		},
		"a swap through a third name": {
			[]string{update("a", "third"), update("b.sh", "a"), update("third", "b.sh")},
			map[string]string{"a": "b.sh 0755", "b.sh": "a 0644"},
		},
		"a chain": {
			[]string{update("a", "new"), update("b.sh", "a"), update("linked", "b.sh")},
			map[string]string{"new": "a 0644", "a": "b.sh 0755", "b.sh": "linked 0600", "other": "linked 0600"},
		},
		"deleted and added": {
			[]string{"*** Delete File: b.sh\n", "*** Add File: b.sh\n+new\n"}, map[string]string{"b.sh": "new 0755"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for name, mode := range map[string]fs.FileMode{"a": 0o644, "b.sh": 0o755, "linked": 0o600} {
				if err := os.Chmod(b.write(name, name+"\n"), mode); err != nil {
					t.Fatal(err)
				}
				b.read(name)
			}
			if err := os.Link(filepath.Join(b.root, "linked"), filepath.Join(b.root, "other")); err != nil {
				t.Fatal(err)
			}
			b.ok("edit.patch", envelope(c.sections...), nil)
			for name, want := range c.want {
				info, err := os.Stat(filepath.Join(b.root, name))
				if err != nil {
					t.Error(err)
				} else if got := fmt.Sprintf("%s %#o", strings.TrimSpace(b.content(name)), info.Mode().Perm()); got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			for name := range b.files() {
				if strings.HasSuffix(name, ".tmp") {
					t.Errorf("left %s", name)
				}
			}
		})
	}
}

// The specification's example: one patch adds, updates and deletes files, and the answer has a diff of each file
// (T-T20-PATCH-01 to -05).
func TestPatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("path/to/existing.go", "context line\nunchanged\nold line\nend\n")
	b.write("path/to/remove.go", "package gone\n")
	b.write("run.sh", "#!/bin/sh\necho hi\n")
	if err := os.Chmod(filepath.Join(b.root, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.read("path/to/existing.go")
	b.read("path/to/remove.go")
	b.read("run.sh")
	var r patchResult
	o := b.ok("edit.patch", envelope(
		"*** Add File: path/to/new.go\n+package main\n+\n+func main() {}\n\n",
		"*** Update File: path/to/existing.go\n@@ context line @@\n unchanged\n-old line\n+new line\n\n",
		"*** Update File: run.sh\n*** Move to: bin/run\n-echo hi\n+echo ho\n",
		"*** Delete File: path/to/remove.go\n",
	), &r)
	want := map[string]string{
		".": "d---------", "path": "d---------", "path/to": "d---------", "bin": "d---------",
		"bin/run":             "#!/bin/sh\necho ho\n",
		"path/to/new.go":      "package main\n\nfunc main() {}\n",
		"path/to/existing.go": "context line\nunchanged\nnew line\nend\n",
	}
	if got := b.files(); !maps.Equal(got, want) {
		t.Errorf("left %v", got)
	}
	if info, err := os.Stat(filepath.Join(b.root, "bin/run")); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if len(r.Files) != 4 {
		t.Fatalf("answered %+v", r)
	}
	for i, want := range []struct {
		path, action, movedTo string
		hunks, added, removed int
		diff                  string
	}{
		{
			"./path/to/new.go", "added", "", 0, 3, 0,
			"--- a/path/to/new.go\n+++ b/path/to/new.go\n@@ -0,0 +1,3 @@\n+package main\n+\n+func main() {}\n",
		},
		{
			"./path/to/existing.go", "updated", "", 1, 1, 1,
			"--- a/path/to/existing.go\n+++ b/path/to/existing.go\n@@ -1,4 +1,4 @@\n context line\n unchanged\n-old " +
				"line\n+new line\n end\n",
		},
		{
			"./run.sh", "moved", "./bin/run", 1, 1, 1,
			"--- a/run.sh\n+++ b/bin/run\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo hi\n+echo ho\n",
		},
		{
			"./path/to/remove.go", "deleted", "", 0, 0, 1,
			"--- a/path/to/remove.go\n+++ b/path/to/remove.go\n@@ -1 +0,0 @@\n-package gone\n",
		},
	} {
		f := r.Files[i]
		if f.Path != want.path || f.Action != want.action || f.MovedTo != want.movedTo || f.Hunks != want.hunks ||
			f.Added != want.added || f.Removed != want.removed || f.Diff != want.diff {
			t.Errorf("file %d: %+v", i, f)
		}
	}
	// T-AUD-10 and -11: records of created and edited files.
	if w := b.record(o, "file.written"); w["path"] != "./path/to/new.go" || w["bytes"] != 29 {
		t.Errorf("record %v", w)
	}
	if e := b.record(o, "file.edited"); e["path"] != "./path/to/existing.go" || e["replacements"] != 1 {
		t.Errorf("record %v", e)
	}
	// The writer of a file need not read it again.
	b.ok(
		"apply_patch",
		envelope("*** Update File: bin/run\n-echo ho\n+echo hu\n*** Update File: path/to/new.go\n@@\n-package "+
			"main\n+package x\n"), nil,
	)
}

// A malformed patch, or one that does not fit, is refused with line, file and hunk, and changes no file
// (T-T20-PATCH-01, -02, -04, -06).
func TestPatchRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.PatchFiles = 3 })
	b.write("first", "one\ntwo\n")
	b.write("f.go", "func one() {\n\treturn 1\n}\n\nfunc two() {\n\treturn 2\n}\n")
	b.write("unread", "x\n")
	b.read("first")
	b.read("f.go")
	before := b.files()
	const good = "*** Update File: first\n-one\n+1\n*** Add File: new/one\n+x\n"
	b.fails(fault.InvalidParams, "apply_patch", in{})
	b.fails(fault.InvalidParams, "edit.patch", in{"patch": 1})
	if f := b.fails(fault.PatchInvalid, "edit.patch", in{"patch": "just text"}); f.Details["line"] != 1 {
		t.Errorf("%v %v", f, f.Details)
	}
	b.fails(fault.PatchInvalid, "edit.patch", in{"patch": "*** Begin Patch\n" + good})
	b.fails(fault.PatchInvalid, "edit.patch", envelope(good, good))
	f := b.fails(
		fault.HunkNotFound, "edit.patch", envelope(good,
			"*** Update File: f.go\n@@ func two() {\n-\treturn 2\n+\treturn 3\n@@\n-func three() {\n-\treturn 2\n+\treturn 4\n"),
	)
	if f.Details["path"] != "./f.go" || f.Details["hunk"] != 2 || f.Details["line"] != 11 ||
		f.Details["nearest_line"] != 5 ||
		!strings.HasPrefix(f.Msg, "Hunk 2 of ./f.go (line 11 of the patch) does not fit") ||
		f.Details["nearest_text"] != "func two() {\n\treturn 2" {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	f = b.fails(fault.HunkAmbiguous, "edit.patch", envelope(good, "*** Update File: f.go\n@@\n-}\n+};\n@@\n-nowhere\n"))
	if failures, ok := f.Details["failures"].([]any); !ok || len(failures) != 2 ||
		fmt.Sprint(f.Details["places"]) != "[3 7]" {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	for _, c := range []struct {
		code    fault.Code
		section string
	}{
		{fault.FileNotRead, "*** Update File: unread\n-x\n+y\n"},
		{fault.FileNotRead, "*** Delete File: unread\n"},
		{fault.FileNotRead, "*** Update File: unread\n*** Move to: read\n"},
		{fault.FileExists, "*** Add File: unread\n+y\n"},
		{fault.FileExists, "*** Update File: f.go\n*** Move to: unread\n"},
		{fault.FileNotFound, "*** Update File: nope\n-x\n+y\n"},
		{fault.FileNotFound, "*** Delete File: nope\n"},
		{fault.FileNotRegular, "*** Delete File: .\n"},
		{fault.FileNotRegular, "*** Add File: f.go/below\n+x\n"},
		{fault.InvalidParams, "*** Add File: ../x\n+x\n"},
		{fault.InvalidParams, "*** Update File: f.go\n*** Move to: /etc/f.go\n"},
	} {
		b.fails(c.code, "edit.patch", envelope(good, c.section))
	}
	b.fails(fault.NoChange, "edit.patch", envelope("*** Update File: first\n@@\n one\n"))
	b.write("first", "one\ntwo\nthree\n")
	before["first"] = "one\ntwo\nthree\n"
	b.fails(fault.FileChangedSinceRead, "edit.patch", envelope(good))
	if got := b.files(); !maps.Equal(got, before) {
		t.Errorf("left %v", got)
	}
}

// A section of a patch applies to the result of the earlier sections. Only the final result is written.
func TestPatchSectionsBuildOnOneAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"a", "b", "c"} {
		b.write(name, name+"1\n"+name+"2\n")
		b.read(name)
	}
	b.ok("edit.patch", envelope(
		"*** Update File: a\n-a1\n+A1\n", "*** Update File: a\n-a2\n+A2\n",
		"*** Add File: new\n+n\n", "*** Update File: new\n-n\n+N\n",
		"*** Add File: passing\n+p\n", "*** Delete File: passing\n",
		"*** Delete File: b\n", "*** Add File: b\n+fresh\n",
	), nil)
	want := map[string]string{".": "d---------", "a": "A1\nA2\n", "b": "fresh\n", "c": "c1\nc2\n", "new": "N\n"}
	if got := b.files(); !maps.Equal(got, want) {
		t.Errorf("left %v", got)
	}
	b.ok("edit.patch", envelope(
		"*** Update File: a\n*** Move to: t\n", "*** Update File: b\n*** Move to: a\n",
		"*** Update File: t\n*** Move to: b\n",
		"*** Update File: c\n*** Move to: d/e\n-c1\n+C1\n", "*** Update File: d/e\n*** Move to: d/f\n",
		"*** Add File: c\n+other\n",
	), nil)
	want = map[string]string{
		".": "d---------", "a": "fresh\n", "b": "A1\nA2\n", "c": "other\n", "d": "d---------", "d/f": "C1\nc2\n",
		"new": "N\n",
	}
	if got := b.files(); !maps.Equal(got, want) {
		t.Errorf("left %v", got)
	}
}

// The encoding, line endings, mode, hard links and the end of the last line are kept.
func TestPatchKeepsTheFilesForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct{ before, section, after string }{
		"crlf":   {"a\r\nb\r\n", "-b\n+B\n+c\n", "a\r\nB\r\nc\r\n"},
		"bom":    {"\xef\xbb\xbfa\nb\n", "-a\n+A\n", "\xef\xbb\xbfA\nb\n"},
		"utf-16": {"\xff\xfea\x00\r\x00\n\x00b\x00", "-b\n+é\n", "\xff\xfea\x00\r\x00\n\x00\xe9\x00"},
		"no end": {"a\nb", "-b\n+c\n", "a\nc"},
	} {
		path := b.write("f", c.before)
		other := filepath.Join(b.root, "other")
		if err := errors.Join(os.Chmod(path, 0o751|fs.ModeSetgid), os.Link(path, other)); err != nil {
			t.Fatal(err)
		}
		b.read("f")
		b.ok("edit.patch", envelope("*** Update File: f\n@@\n"+c.section), nil)
		info, err := os.Stat(other)
		if got := b.content("f"); got != c.after || b.content("other") != c.after || err != nil ||
			info.Mode() != 0o751|fs.ModeSetgid {
			t.Errorf("%s: %q with mode %v, %v", name, got, info.Mode(), err)
		}
		if err := errors.Join(os.Remove(path), os.Remove(other)); err != nil {
			t.Fatal(err)
		}
	}
}

// Changes follow links, and the links stay. A patch does not delete or move a link by mistake.
func TestPatchThroughLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("dir/real", "a\n")
	b.link("dir/real", "link")
	b.link("dir", "folder")
	b.read("link")
	b.ok("edit.patch", envelope("*** Update File: link\n-a\n+b\n"), nil)
	for _, section := range []string{"*** Delete File: link\n", "*** Update File: link\n*** Move to: x\n"} {
		if f := b.fails(fault.FileNotRegular, "edit.patch", envelope(section)); !strings.Contains(f.Msg, "is a link to") {
			t.Errorf("message %q", f.Msg)
		}
	}
	if target, err := os.Readlink(filepath.Join(b.root, "link")); err != nil || target != "dir/real" ||
		b.content("dir/real") != "b\n" {
		t.Errorf("link to %s, %v; real %q", target, err, b.content("dir/real"))
	}
	b.ok("edit.patch", envelope("*** Update File: folder/real\n*** Move to: moved\n"), nil)
	if b.content("moved") != "b\n" || b.content("dir/real") != "(none)" {
		t.Errorf("left %v", b.files())
	}
}

// Each path of a patch must be writable in the caller's cage and allowed by the operator. One path that is not makes
// the whole patch fail (T-T20-PATCH-06, T-PERM-03, T-PATH-05).
func TestPatchInACage(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.rules.Denied = []string{"src/secret"} })
	b.from.Agent, b.from.Cage = "primary.subagents.coder", &dsl.Cage{
		FS: []dsl.Mount{{Mode: "rw", Path: "./src"}, {Mode: "ro", Path: "./docs"}},
	}
	b.write("src/a", "a\n")
	b.write("src/secret/key", "k\n")
	b.write("docs/d", "d\n")
	b.read("src/a")
	b.read("docs/d")
	before := b.files()
	const good = "*** Update File: src/a\n-a\n+b\n"
	for section, path := range map[string]string{
		"*** Add File: docs/new\n+x\n": "docs/new", "*** Update File: docs/d\n-d\n+e\n": "docs/d",
		"*** Delete File: docs/d\n":                     "docs/d",
		"*** Update File: src/a\n*** Move to: docs/a\n": "docs/a", "*** Add File: src2/x\n+x\n": "src2/x",
		"*** Delete File: src/secret/key\n": "src/secret/key",
	} {
		if f := b.fails(fault.CapabilityDenied, "edit.patch", envelope(good, section)); f.Details["required"] != "rw:fs:"+
			path {
			t.Errorf("%s: %v", section, f.Details)
		}
	}
	if got := b.files(); !maps.Equal(got, before) {
		t.Errorf("left %v", got)
	}
	b.ok("edit.patch", envelope(good), nil)
}

// A large file or a binary file can be moved and deleted, without reading it into memory. The number of bytes read by
// one patch is limited.
func TestPatchLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.EditFile, b.limits.PatchBytes = 1000, 1500 })
	b.write("big", strings.Repeat("x\n", 1000))
	b.write("bin", "\x00\x01")
	b.write("one", strings.Repeat("y\n", 400))
	b.write("two", strings.Repeat("y\n", 400))
	for name := range b.files() {
		b.read(name)
	}
	b.fails(fault.FileTooLarge, "edit.patch", envelope("*** Update File: big\n@@ -1,1 +1,1 @@\n-x\n+z\n"))
	b.fails(fault.FileTooLarge, "edit.patch", envelope("*** Delete File: one\n", "*** Delete File: two\n"))
	b.fails(fault.FileNotText, "edit.patch", envelope("*** Update File: bin\n-x\n+z\n"))
	b.fails(
		fault.FileTooLarge, "edit.patch", envelope("*** Update File: big\n*** Move to: moved\n", "*** Add File: big\n+x\n"),
	)
	b.ok("edit.patch", envelope("*** Update File: big\n*** Move to: moved\n", "*** Delete File: bin\n"), nil)
	if b.content("moved") != strings.Repeat("x\n", 1000) || b.content("big") != "(none)" || b.content("bin") != "(none)" {
		t.Errorf("left %v", slices.Sorted(maps.Keys(b.files())))
	}
	b.ok("edit.patch", envelope("*** Delete File: moved\n"), nil)
}

// A patch can make a file empty, even while it moves the file.
func TestPatchEmptiesAFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("f", "a\n")
	b.write("g", "a\n")
	b.read("f")
	b.read("g")
	b.ok(
		"edit.patch", envelope("*** Update File: f\n-a\n", "*** Update File: g\n*** Move to: h\n-a\n", "*** Add File: new\n"),
		nil,
	)
	if b.content("f") != "" || b.content("h") != "" || b.content("new") != "" || b.content("g") != "(none)" {
		t.Errorf("left %v", b.files())
	}
}

// Patches of the same files wait for each other, in any order of their paths, and none is lost (T-FM-12).
func TestPatchesWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.from.KnowsFiles = true
	const writers, rounds = 6, 15
	for _, name := range []string{"a", "b", "c"} {
		b.write(name, "top\n")
	}
	orders := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range rounds {
				var sections []string
				for _, name := range orders[(w+i)%len(orders)] {
					sections = append(sections, fmt.Sprintf("*** Update File: %s\n@@ top\n+%d %d\n", name, w, i))
				}
				if o, err := b.do(t.Context(), "edit.patch", envelope(sections...)); err != nil || o.Fault != nil {
					t.Errorf("%v %v", err, o.Fault)
				}
			}
		})
	}
	group.Wait()
	lines := strings.Split(b.content("a"), "\n")
	if len(lines) != writers*rounds+2 || b.content("b") != b.content("a") || b.content("c") != b.content("a") {
		t.Errorf("%d lines; b and c are as a: %v %v", len(lines), b.content("b") == b.content("a"),
			b.content("c") == b.content("a"))
	}
}

// A pipe, a folder and any other irregular file are refused at once.
func TestPatchOfNoFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := errors.Join(unix.Mkfifo(filepath.Join(b.root, "pipe"), 0o644),
		os.Mkdir(filepath.Join(b.root, "dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "dir"} {
		b.fails(fault.FileNotRegular, "edit.patch", envelope("*** Update File: "+name+"\n-x\n+z\n"))
		b.fails(fault.FileNotRegular, "edit.patch", envelope("*** Delete File: "+name+"\n"))
		b.fails(fault.FileExists, "edit.patch", envelope("*** Add File: "+name+"\n+x\n"))
	}
}

package tools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
)

type editResult struct {
	Path         string
	Replacements int
	Diff         string
}

// read makes the bench's agent read a file, which it must do before an edit.
func (b *bench) read(name string) {
	b.t.Helper()
	b.ok("file.read", in{"path": name}, nil)
}

// The text is replaced if it occurs exactly once, and the diff shows the change (T-EDIT-TEXT-01, -02, TN-FILE-6).
func TestEdit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("main.ts", "a\nconst port = 3000;\nb\n")
	b.read("main.ts")
	var r editResult
	o := b.ok("edit.text", in{"path": "./main.ts", "old_string": "3000", "new_string": "4000"}, &r)
	if r.Path != "./main.ts" || r.Replacements != 1 || b.content("main.ts") != "a\nconst port = 4000;\nb\n" {
		t.Errorf("edited %+v to %q", r, b.content("main.ts"))
	}
	if want := "--- a/main.ts\n+++ b/main.ts\n@@ -1,3 +1,3 @@\n a\n-const port = 3000;\n+const port = 4000;\n b\n"; r.Diff != want {
		t.Errorf("diff %q", r.Diff)
	}
	if e := b.record(o, "file.edited"); e["path"] != "./main.ts" || e["replacements"] != 1 {
		t.Errorf("record %v", e)
	}
	b.ok("edit", in{"path": "main.ts", "old_text": "const", "new_text": "let"}, nil)
}

// Every failure of an edit has its code and leaves the file unchanged (T-EDIT-TEXT-03, -04, -06, -08, TN-FILE-7, -8).
func TestEditRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const content = "func one() {\n\treturn 1\n}\n\nfunc two() {\n\treturn  2\n}\nx x x\n"
	b.write("f.go", content)
	edit := func(old, new string) in { return in{"path": "f.go", "old_string": old, "new_string": new} }
	b.fails(fault.FileNotRead, "edit.text", edit("one", "1"))
	b.read("f.go")
	b.fails(fault.NoChange, "edit.text", edit("one", "one"))
	b.fails(fault.InvalidParams, "edit.text", edit("", "x"))
	if f := b.fails(fault.MultipleMatches, "edit.text", edit("x", "y")); f.Details["count"] != 3 ||
		!strings.Contains(f.Msg, "3") {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	b.fails(fault.MultipleMatches, "edit", in{"path": "f.go", "old_text": "func", "new_text": "fn"})
	f := b.fails(fault.OldStringNotFound, "edit.text", edit("func two() {\n\treturn 2\n}", "y"))
	if f.Details["nearest_line"] != 5 || f.Details["nearest_text"] != "func two() {\n\treturn  2\n}" ||
		!strings.Contains(f.Msg, "white space") {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	f = b.fails(fault.OldStringNotFound, "edit.text", edit("\tretrun 1", "y"))
	if f.Details["nearest_line"] != 2 {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	if f = b.fails(fault.OldStringNotFound, "edit.text", edit("QQQQQQ", "y")); f.Details["nearest_line"] != nil {
		t.Errorf("%s %v", f.Msg, f.Details)
	}
	b.fails(fault.FileNotFound, "edit.text", in{"path": "nope", "old_string": "a", "new_string": "b"})
	b.fails(fault.FileNotRegular, "edit.text", in{"path": ".", "old_string": "a", "new_string": "b"})
	if b.content("f.go") != content {
		t.Errorf("content %q", b.content("f.go"))
	}
}

// replace_all replaces every occurrence and counts them (T-EDIT-TEXT-05).
func TestEditAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("f", "x x x\nxx")
	b.read("f")
	var r editResult
	b.ok("edit.text", in{"path": "f", "old_string": "x", "new_string": "yx", "replace_all": true}, &r)
	if r.Replacements != 5 || b.content("f") != "yx yx yx\nyxyx" {
		t.Errorf("%d replacements make %q", r.Replacements, b.content("f"))
	}
}

// An edit keeps the encoding, the byte order mark, the line endings, a missing final line break and the mode bits
// (T-EDIT-TEXT-07).
func TestEditKeepsTheFilesForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct{ before, old, new, after string }{
		"crlf":      {"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\nc\r\n"},
		"crlf said": {"a\r\nb\r\n", "a\r\n", "q\r\n", "q\r\nb\r\n"},
		"mixed":     {"a\r\nb\nc\r\n", "b\nc", "b\n\nc", "a\r\nb\n\nc\r\n"},
		"mixed two": {"a\r\nb\nc\n", "a\nb", "a\n1\nb", "a\r\n1\r\nb\nc\n"},
		"bom":       {"\xef\xbb\xbfhello\n", "hello", "bye", "\xef\xbb\xbfbye\n"},
		"no end":    {"one\ntwo", "two", "2", "one\n2"},
		"utf-16":    {"\xff\xfeh\x00i\x00\n\x00", "hi", "hé", "\xff\xfeh\x00\xe9\x00\n\x00"},
		"return":    {"a\rb", "a\rb", "c", "c"},
	} {
		path := b.write("f", c.before)
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		b.read("f")
		b.ok("edit.text", in{"path": "f", "old_string": c.old, "new_string": c.new}, nil)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.content("f"); got != c.after || info.Mode() != 0o640 {
			t.Errorf("%s: %q with mode %v, want %q", name, got, info.Mode(), c.after)
		}
	}
	b.write("crlf", "a\r\nb\r\n")
	b.read("crlf")
	b.fails(fault.NoChange, "edit.text", in{"path": "crlf", "old_string": "a\n", "new_string": "a\r\n"})
}

// Files without UTF-8 text are not edited, and a file over the limit is refused with the limit.
func TestEditOnlyText(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.EditFile = 1000 })
	for _, content := range []string{"caf\xe9 text", "nul\x00 text", "\xff\xfete xt"} {
		b.write("f", content)
		b.read("f")
		b.fails(fault.FileNotText, "edit.text", in{"path": "f", "old_string": "text", "new_string": "x"})
	}
	b.write("big", strings.Repeat("x", 1001))
	b.read("big")
	if f := b.fails(fault.FileTooLarge, "edit.text", in{
		"path": "big", "old_string": "x", "new_string": "y",
	}); f.Details["limit_bytes"] != int64(1000) {
		t.Errorf("details %v", f.Details)
	}
	var r writeResult
	if b.ok("file.write", in{"path": "big", "content": "small"}, &r); r.Diff != "" {
		t.Errorf("diff %q", r.Diff)
	}
}

// A long diff is cut at the end of a line.
func TestEditDiffIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("f", strings.Repeat("a line of text\n", 5000))
	b.read("f")
	var r editResult
	b.ok("edit.text", in{"path": "f", "old_string": "line", "new_string": "row", "replace_all": true}, &r)
	if len(r.Diff) > 17<<10 || !strings.HasSuffix(r.Diff, "\n[diff truncated]\n") || r.Replacements != 5000 {
		t.Errorf("%d bytes of diff end in %q", len(r.Diff), r.Diff[len(r.Diff)-40:])
	}
}

// If a folder cannot be written, the edit fails with the system's message and keeps the file. Root may write to any
// folder, so the test replaces the folder by a file.
func TestEditFailsWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("d/f", "x\n")
	b.read("d/f")
	dir := filepath.Join(b.root, "d")
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(dir, 0o755)
		f := b.fails(fault.FileIO, "edit.text", in{"path": "d/f", "old_string": "x", "new_string": "y"})
		if !strings.Contains(f.Msg, "permission denied") || b.content("d/f") != "x\n" {
			t.Errorf("%s, content %q", f.Msg, b.content("d/f"))
		}
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b.write("d", "")
	b.fails(fault.FileNotFound, "edit.text", in{"path": "d/f", "old_string": "x", "new_string": "y"})
}

// An edit and its reverse leave the file unchanged, for any text and line endings.
func TestEditAndBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	piece := rapid.SampledFrom([]string{"a", "b", "ab", "\n", "\n", "\t", "é", "😀", "xyz", " "})
	rapid.Check(t, func(t *rapid.T) {
		ending := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line ending")
		draw := func(name string) string {
			text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, name), "")
			return strings.ReplaceAll(text, "\n", ending)
		}
		edit := func(old, new string) {
			o, err := b.do(b.t.Context(), "edit.text", in{"path": "f", "old_string": old, "new_string": new})
			if err != nil || o.Fault != nil {
				t.Fatalf("%q to %q in %q: %v %v", old, new, b.content("f"), err, o.Fault)
			}
		}
		// The marks make both texts occur once.
		old, new := "<"+draw("old")+">", "["+draw("new")+"]"
		content := draw("before") + old + draw("after")
		b.write("f", content)
		b.read("f")
		edit(old, new)
		edit(new, old)
		if got := b.content("f"); got != content {
			t.Fatalf("%q became %q", content, got)
		}
	})
}

// A replacement that would make a file too large to edit, or that occurs too often, is refused before it takes the
// memory.
func TestEditTextBounds(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.EditFile = 1 << 20 })
	content := strings.Repeat("a b\n", 50_000)
	b.write("f", content)
	b.ok("file.read", in{"path": "f"}, nil)
	b.fails(fault.FileTooLarge, "edit.text", in{
		"path": "f", "old_string": "a", "new_string": strings.Repeat("x", 1<<20), "replace_all": true,
	})
	b.fails(fault.FileTooLarge, "edit.text", in{
		"path": "f", "old_string": "a", "new_string": strings.Repeat("x", 20), "replace_all": true,
	})
	if b.content("f") != content {
		t.Error("a refused edit was made")
	}
	b.ok("edit.text", in{"path": "f", "old_string": "a", "new_string": "A", "replace_all": true}, nil)
	b.write("g", strings.Repeat("a", 200_000))
	b.ok("file.read", in{"path": "g"}, nil)
	b.fails(fault.InvalidParams, "edit.text", in{"path": "g", "old_string": "a", "new_string": "b", "replace_all": true})
}

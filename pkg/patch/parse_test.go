package patch_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/patch"
)

// envelope puts sections between the marks.
func envelope(body string) string { return "*** Begin Patch\n" + body + "*** End Patch\n" }

// parse parses a valid patch.
func parse(t testing.TB, text string) []patch.Section {
	t.Helper()
	p, err := patch.Parse(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return p.Sections
}

// The specification's example is parsed as specified (T-T20-PATCH-02 to -05).
func TestParse(t *testing.T) {
	t.Parallel()
	sections := parse(t, `*** Begin Patch
*** Add File: path/to/new.go
+package main
+
+func main() {}

*** Update File: path/to/existing.go
@@ context line @@
 unchanged
-old line
+new line

*** Delete File: path/to/remove.go
*** Update File: a b.txt
*** Move to:  c.txt
*** Update File: d
*** Move to: e
@@ class A
@@ 	def f():
-x

+y
*** End of File
@@ -10,0 +11,2 @@ func g() {
+z
\ No newline at end of file
*** End Patch`)
	type section struct {
		op            patch.Op
		path, moveTo  string
		line          int
		content       string
		hunks         int
		headers, text string
	}
	want := []section{
		{patch.Add, "path/to/new.go", "", 2, "package main\n\nfunc main() {}\n", 0, "", ""},
		{patch.Update, "path/to/existing.go", "", 7, "", 1, "context line", " unchanged|-old line|+new line| "},
		{patch.Delete, "path/to/remove.go", "", 13, "", 0, "", ""},
		{patch.Update, "a b.txt", "c.txt", 14, "", 0, "", ""},
		{patch.Update, "d", "e", 16, "", 2, "class A|\tdef f():", "-x| |+y"},
	}
	for i, s := range sections {
		got := section{s.Op, s.Path, s.MoveTo, s.Line, s.Content, len(s.Hunks), "", ""}
		if len(s.Hunks) > 0 {
			got.headers, got.text = strings.Join(s.Hunks[0].Headers, "|"), lines(s.Hunks[0])
		}
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("section %d: %+v, want %+v", i+1, got, want[i])
		}
	}
	if len(sections) != len(want) {
		t.Fatalf("%d sections", len(sections))
	}
	last := sections[4].Hunks
	if !last[0].EOF || last[0].Line != 18 || last[1].At != 11 || last[1].Line != 24 || !last[1].Lines[0].NoEnd ||
		last[1].Headers != nil {
		t.Errorf("hunks %+v", last)
	}
}

func lines(h patch.Hunk) string {
	var list []string
	for _, l := range h.Lines {
		list = append(list, string(l.Op)+l.Text)
	}
	return strings.Join(list, "|")
}

// Wrappings by models are accepted: fences, a shell's here-document, \r\n as line ends.
func TestParseWrapped(t *testing.T) {
	t.Parallel()
	plain := envelope("*** Add File: f\n+text\n")
	for _, text := range []string{
		plain, strings.TrimSuffix(plain, "\n"), "\n\n" + plain + "\n\n", "```\n" + plain + "```\n",
		"```diff\n" + plain + "```",
		"apply_patch <<'EOF'\n" + plain + "EOF\n", strings.ReplaceAll(plain, "\n", "\r\n"),
		"  *** Begin Patch  \n*** Add File:f\n+text\n *** End Patch",
	} {
		if s := parse(t, text); len(s) != 1 || s[0].Path != "f" || s[0].Content != "text\n" {
			t.Errorf("%q: %+v", text, s)
		}
	}
	if s := parse(
		t, envelope("*** Add File: f\n+one\r\n+two\n\\ No newline at end of file\n*** Add File: empty\n"),
	); s[0].Content != "one\r\ntwo" ||
		s[1].Content != "" {
		t.Errorf("%q", s[0].Content)
	}
}

// An error in a patch is reported with its line (T-T20-PATCH-02).
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		line int
		says string
	}{
		{"", 1, "begins with"},
		{"hello", 1, "not with \"hello\""},
		{"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 1, "unified diff"},
		{"*** Begin Patch\n*** Add File: f\n+x\n", 3, "cut off"},
		{"*** Begin Patch\n*** Update File: f\n-x\n", 3, "cut off"},
		{"*** Begin Patch", 1, "cut off"},
		{envelope(""), 2, "changes no file"},
		{envelope("\n*** Rename File: f\n"), 3, "no section"},
		{envelope("+x\n"), 2, "before the first section"},
		{envelope("*** Delete File: f\n-x\n"), 3, "deleted file"},
		{envelope("*** Add File:\n+x\n"), 2, "no name"},
		{envelope("*** Add File: f\n+x\n\n+y\n"), 4, "also an empty one"},
		{envelope("*** Add File: f\nx\n"), 3, "begins with +"},
		{envelope("*** Update File: f\n"), 2, "no hunks"},
		{envelope("*** Update File: f\n*** Move to: \n"), 3, "no new name"},
		{envelope("*** Update File: f\n@@ x\n"), 3, "no lines"},
		{envelope("*** Update File: f\n@@ x\n\n\n"), 3, "no lines"},
		{envelope("*** Update File: f\n-a\nb\n"), 4, "space, - or +"},
		{envelope("*** Update File: f\n*** End of File\n"), 3, "follows no lines"},
		{envelope("*** Update File: f\n\\ No newline at end of file\n"), 3, "space, - or +"},
		{envelope("*** Delete File: f\n") + "and so on\n", 4, "follows"},
		{envelope("*** Delete File: f\n") + envelope("*** Delete File: g\n"), 4, "follows"},
	} {
		_, err := patch.Parse(c.text)
		f := fault.From(err)
		if !errors.Is(err, fault.PatchInvalid) || f.Details["line"] != c.line || !strings.Contains(f.Msg, c.says) {
			t.Errorf("%q: %v %v, want line %d and %q", c.text, err, f.Details, c.line, c.says)
		}
	}
}

// Any text is a patch or a refusal that names one of its lines; a patch changes any text within its bounds.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		envelope("*** Add File: f\n+x\n\n*** Update File: g\n@@ a @@\n b\n-c\n+d\n\n*** Delete File: h\n"),
		envelope("*** Update File: f\n*** Move to: g\n@@ -1,2 +3,4 @@ x\n a\n-b\n\\ No newline at end of file\n+c\n*** " +
			"End of File\n"),
		"```\n*** Begin Patch\r\n*** Add File: f\r\n+a\r\n*** End Patch\r\n```",
		"*** Begin Patch\n*** Update File: f\n@@\n@@ x\n+\n*** End Patch",
	} {
		f.Add(seed, "a\nb\nc\n")
		f.Add(seed, "a\r\n  b\r\nc")
	}
	f.Fuzz(func(t *testing.T, text, content string) {
		p, err := patch.Parse(text)
		if err != nil {
			line, ok := fault.From(err).Details["line"].(int)
			if !errors.Is(err, fault.PatchInvalid) || !ok || line < 1 || line > strings.Count(text, "\n")+1 {
				t.Fatalf("%v %v", err, fault.From(err).Details)
			}
			return
		}
		for _, s := range p.Sections {
			if s.Path == "" || s.Line < 2 {
				t.Fatalf("section %+v", s)
			}
			checkOutcome(t, s, content)
		}
	})
}

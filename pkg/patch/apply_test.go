package patch_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/patch"
)

// section returns an update of one file.
func section(t testing.TB, hunks string) patch.Section {
	t.Helper()
	return parse(t, envelope("*** Update File: f\n"+hunks))[0]
}

// apply returns a text after a section is applied.
func apply(t testing.TB, s patch.Section, text string) (string, *patch.Outcome, []patch.Failure) {
	t.Helper()
	out, failures, err := s.Apply(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if out == nil {
		return "", nil, failures
	}
	return edit.Apply(text, out.Changes), out, nil
}

// checkOutcome checks the contract of Apply for any section and any text.
func checkOutcome(t testing.TB, s patch.Section, text string) {
	out, failures, err := s.Apply(t.Context(), text)
	if err != nil || out == nil && len(failures) == 0 || out != nil && len(failures) > 0 {
		t.Fatalf("%+v, %v, %v", out, failures, err)
	}
	for _, f := range failures {
		if f.Code != fault.HunkNotFound && f.Code != fault.HunkAmbiguous || f.Hunk < 1 || f.Hunk > len(s.Hunks) ||
			f.Line < s.Line ||
			f.Nearest < 0 ||
			f.Nearest > strings.Count(text, "\n")+1 ||
			f.Reason == "" {
			t.Fatalf("failure %+v", f)
		}
	}
	if out == nil {
		return
	}
	last := 0
	for _, c := range out.Changes {
		if c.Start < last || c.End < c.Start || c.End > len(text) {
			t.Fatalf("changes %+v of %d bytes", out.Changes, len(text))
		}
		last = c.End
	}
	edit.Apply(text, out.Changes)
}

// Hunks are placed by their lines, their headers and their end, and all other bytes stay unchanged (T-T20-PATCH-04).
func TestApply(t *testing.T) {
	t.Parallel()
	const goFile = "package a\n\nfunc one() {\n\treturn 1\n}\n\nfunc two() {\n\treturn 1\n}\n"
	for name, c := range map[string]struct{ text, hunks, want string }{
		"replace":           {"a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n"},
		"no header":         {"a\nb\nc\n", "-b\n+B\n", "a\nB\nc\n"},
		"insert":            {"a\nb\n", " a\n+x\n+y\n", "a\nx\ny\nb\n"},
		"delete":            {"a\nb\nc\n", "-b\n", "a\nc\n"},
		"two":               {"a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n-d\n+D\n", "A\nb\nc\nD\n"},
		"in one hunk":       {"a\nb\nc\nd\ne\n", "-a\n+A\n b\n-c\n d\n+x\n e\n", "A\nb\nd\nx\ne\n"},
		"plus before minus": {"a\nb\n", "+A\n-a\n b\n", "A\nb\n"},
		"header": {
			goFile, "@@ func two() {\n-\treturn 1\n+\treturn 2\n",
			strings.Replace(goFile, "two() {\n\treturn 1", "two() {\n\treturn 2", 1),
		},
		"header's beginning": {
			goFile, "@@ func two\n-\treturn 1\n+\treturn 2\n",
			strings.Replace(goFile, "two() {\n\treturn 1", "two() {\n\treturn 2", 1),
		},
		"header in the hunk too": {
			goFile, "@@ func two() {\n func two() {\n-\treturn 1\n+\treturn 2\n",
			strings.Replace(goFile, "two() {\n\treturn 1", "two() {\n\treturn 2", 1),
		},
		"insert below header": {"a\nb\nc\n", "@@ b\n+x\n", "a\nb\nx\nc\n"},
		"flat header": {
			"[a]\nport = 1\n[b]\nport = 1\n[c]\nport = 1\n", "@@ [b]\n-port = 1\n+port = 2\n",
			"[a]\nport = 1\n[b]\nport = 2\n[c]\nport = 1\n",
		},
		"nested headers": {
			"class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n", "@@ class B:\n@@   def f():\n-    x\n+    y\n",
			"class A:\n  def f():\n    x\nclass B:\n  def f():\n    y\n",
		},
		"same header, one place": {
			"def f():\n  x\ndef f():\n  y\n", "@@ def f():\n-  y\n+  z\n", "def f():\n  x\ndef f():\n  z\n",
		},
		"end of file":          {"x\na\nx\n", "-x\n+y\n*** End of File\n", "x\na\ny\n"},
		"append":               {"a\n", "+b\n*** End of File\n", "a\nb\n"},
		"into an empty file":   {"", "+b\n", "b\n"},
		"by number":            {"x\nx\nx\n", "@@ -2,1 +2,1 @@\n-x\n+y\n", "x\ny\nx\n"},
		"by number, inserting": {"x\nx\nx\n", "@@ -2,0 +3,1 @@\n+y\n", "x\nx\ny\nx\n"},
		"by a far number": {
			strings.Repeat("x\n", 100), "@@ -99,1 +99,1 @@\n-x\n+y\n", strings.Repeat("x\n", 98) + "y\nx\n",
		},
		"wrong number":            {"a\nb\nc\n", "@@ -9,1 +9,1 @@\n-b\n+B\n", "a\nB\nc\n"},
		"out of order":            {"a\nb\nc\n", "@@\n-c\n+C\n@@\n-a\n+A\n", "A\nb\nC\n"},
		"order decides":           {"x\nm\nx\n", "@@\n-m\n+M\n@@\n-x\n+X\n", "x\nM\nX\n"},
		"shared context":          {"a\nb\nc\n", "@@\n-a\n+A\n b\n@@\n b\n-c\n+C\n", "A\nb\nC\n"},
		"blank line before next":  {"a\nb\n", "@@\n-a\n+A\n\n@@\n-b\n+B\n", "A\nB\n"},
		"blank line of the file":  {"a\n\nb\na\nb\n", "@@\n-a\n+A\n\n", "A\n\nb\na\nb\n"},
		"blank lines in the hunk": {"a\n\nb\n", "@@\n a\n\n-b\n+B\n", "a\n\nB\n"},
		"crlf":                    {"a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n+x\n", "a\r\nB\r\nx\r\nc\r\n"},
		"crlf in the patch":       {"a\nb\n", "@@\r\n-b\r\n+B\r\n", "a\nB\n"},
		"mixed endings":           {"a\nb\r\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\r\nc\n"},
		"mixed, inserted":         {"a\nb\r\nc\n", "@@\n b\n+x\n", "a\nb\r\nx\r\nc\n"},
		"no final break":          {"a\nb", "@@\n-b\n+B\n", "a\nB"},
		"no final break, longer":  {"a\nb", "@@\n-b\n+B\n+c\n", "a\nB\nc"},
		"no final break, append":  {"a\r\nb", "@@\n b\n+c\n", "a\r\nb\r\nc"},
		"no final break, before":  {"a\nb", "@@\n-a\n+A\n", "A\nb"},
		"no final break, shorter": {"a\nb", "@@\n-b\n", "a\n"},
		"final break added":       {"a", "@@\n-a\n\\ No newline at end of file\n+a\n", "a\n"},
		"final break taken":       {"a\n", "@@\n-a\n+b\n\\ No newline at end of file\n", "b"},
		"trailing space":          {"a  \nb\t\n", "@@\n a\n-b\n+B\n", "a  \nB\n"},
		"indentation": {
			"\tif x {\n\t\ty()\n\t}\n", "@@\n if x {\n-\ty()\n+\tz()\n+\t\tdeeper()\n }\n",
			"\tif x {\n\t\tz()\n\t\t\tdeeper()\n\t}\n",
		},
		"less indentation": {
			"if x {\n\ty()\n}\n", "@@\n \tif x {\n-\t\ty()\n+\t\tz()\n+\t\t\tw()\n \t}\n", "if x {\n\tz()\n\t\tw()\n}\n",
		},
		"spaces for tabs": {
			"\tif x {\n\t\ty()\n\t}\n", "@@\n     if x {\n-        y()\n+        z()\n+            w()\n     }\n",
			"\tif x {\n\t\tz()\n\t\t\tw()\n\t}\n",
		},
		"typographic":         {"say(“hi” – it’s me)\n", "@@\n-say(\"hi\" - it's me)\n+say(\"bye\")\n", "say(\"bye\")\n"},
		"typographic context": {"– a\nb\n", "@@\n - a\n-b\n+c\n", "– a\nc\n"},
		"nothing but context": {"a\nb\n", "@@\n a\n", "a\nb\n"},
	} {
		got, out, failures := apply(t, section(t, c.hunks), c.text)
		if got != c.want || out == nil {
			t.Errorf("%s: %q by %q gives %q, want %q; %+v", name, c.text, c.hunks, got, c.want, failures)
		}
	}
}

// Apply reports the use of tolerance.
func TestApplyNotes(t *testing.T) {
	t.Parallel()
	_, out, _ := apply(t, section(t, "@@\n-a\n+b\n c\n"), "x\n  a\n  c\n")
	if out == nil || out.Added != 1 || out.Removed != 1 || len(out.Notes) != 1 ||
		out.Notes[0] != "hunk 1 fits at line 2 only ignoring white space around lines" {
		t.Errorf("%+v", out)
	}
}

// A hunk that fits nowhere, or in several places, is refused with the reason and with the text of the file.
func TestApplyFails(t *testing.T) {
	t.Parallel()
	const text = "one\ntwo\nthree\nfour\none\ntwo\nthree four five\n"
	for name, c := range map[string]struct {
		text, hunks string
		code        fault.Code
		hunk, line  int
		nearest     int
		says        string
	}{
		"not there": {
			text, "@@\n-one\n+1\n three\n", fault.HunkNotFound, 1, 3, 2, `line 2 is "two" and the patch has "one"`,
		},
		"nothing like it":      {text, "@@\n-QQQQ\n", fault.HunkNotFound, 1, 3, 0, "not in the file"},
		"twice":                {text, "@@\n-two\n+2\n", fault.HunkAmbiguous, 1, 3, 0, "at lines 2, 6"},
		"twice but for spaces": {" a\n  a\n", "@@\n-a\n", fault.HunkAmbiguous, 1, 3, 0, "at lines 1, 2"},
		"second hunk": {
			text, "@@\n-four\n+4\n@@\n-four\n+5\n", fault.HunkNotFound, 2, 6, 4, "changed by a hunk before it",
		},
		"no header":      {text, "@@ six\n-one\n", fault.HunkNotFound, 1, 3, 0, `header "six" is not in the file`},
		"header's block": {"f:\n a\n a\ng:\n a\n", "@@ f:\n- a\n", fault.HunkAmbiguous, 1, 3, 0, "at lines 2, 3"},
		"two headers":    {"f:\n a\nf:\n a\n", "@@ f:\n- a\n", fault.HunkAmbiguous, 1, 3, 0, "at lines 2, 4"},
		"adds somewhere": {text, "@@\n+x\n", fault.HunkNotFound, 1, 3, 0, "does not say where"},
		"too long":       {"a\nb\n", "@@\n a\n b\n-c\n", fault.HunkNotFound, 1, 3, 1, "the file ends after it"},
		"empty file":     {"", "@@\n-a\n", fault.HunkNotFound, 1, 3, 0, "not in the file"},
		"many": {
			strings.Repeat("x\n", 50), "@@\n-x\n", fault.HunkAmbiguous, 1, 3, 0, "1, 2, 3, 4, 5 and maybe more",
		},
	} {
		got, _, failures := apply(t, section(t, c.hunks), c.text)
		if len(failures) != 1 {
			t.Errorf("%s: gives %q and %+v", name, got, failures)
			continue
		}
		if f := failures[0]; f.Code != c.code || f.Hunk != c.hunk || f.Line != c.line || f.Nearest != c.nearest ||
			!strings.Contains(f.Reason, c.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if _, _, failures := apply(t, section(t, "@@\n-q\n@@\n-two\n@@\n-four\n+4\n@@\n-r\n"), text); len(failures) != 3 {
		t.Errorf("%+v", failures)
	}
}

// A diff of two texts, applied to the first, gives the second. With line numbers it always does; without them a hunk
// that fits in several places is refused as ambiguous.
func TestPatchOfADiffReproducesTheTarget(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom(
		[]string{"one", "two", "three", "", "  four", "\tfive", "six ", "“seven”", "8", "9", "10", "11"},
	)
	rapid.Check(t, func(t *rapid.T) {
		ending := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "ending")
		draw := func(name string) string {
			text := strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, name), ending)
			return text + rapid.SampledFrom([]string{"", ending}).Draw(t, name+" ends")
		}
		before, after := draw("before"), draw("after")
		if before == after || ending == "\r\n" && !strings.Contains(before, ending) {
			return // no failure, or no line that shows the file's line breaks
		}
		diff := edit.DiffTexts("./f", before, after, 1<<20)
		_, hunks, _ := strings.Cut(diff, "\n")
		_, hunks, _ = strings.Cut(hunks, "\n")
		p, err := patch.Parse(envelope("*** Update File: f\n" + hunks))
		if err != nil {
			t.Fatalf("%v in\n%s", err, hunks)
		}
		s := p.Sections[0]
		out, failures, _ := s.Apply(t.Context(), before)
		if failures != nil {
			t.Fatalf("%q by\n%s\nfails: %+v", before, hunks, failures)
		}
		if got := edit.Apply(before, out.Changes); got != after {
			t.Fatalf("%q by\n%s\ngives %q, want %q", before, hunks, got, after)
		}
		for i := range s.Hunks {
			s.Hunks[i].At = -1
		}
		if out, failures, _ = s.Apply(t.Context(), before); failures == nil {
			if got := edit.Apply(before, out.Changes); got != after {
				t.Fatalf("%q without numbers by\n%s\ngives %q, want %q", before, hunks, got, after)
			}
			return
		}
		for _, f := range failures {
			if f.Code != fault.HunkAmbiguous && !strings.Contains(f.Reason, "does not say where") &&
				failures[0].Code != fault.HunkAmbiguous {
				t.Fatalf("%q without numbers by\n%s\nfails: %+v", before, hunks, failures)
			}
		}
	})
}

// The positions are the same with and without an index.
func TestManyHunks(t *testing.T) {
	t.Parallel()
	var text, want, few, many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "line %d\nsame\n", i)
		if i%30 == 7 {
			fmt.Fprintf(&want, "LINE %d\nsame\n", i)
			fmt.Fprintf(&many, "@@\n-line %d\n+LINE %d\n same\n", i, i)
		} else {
			fmt.Fprintf(&want, "line %d\nsame\n", i)
		}
	}
	if got, _, failures := apply(t, section(t, many.String()), text.String()); got != want.String() {
		t.Errorf("%+v", failures)
	}
	few.WriteString("@@\n-same\n")
	if _, _, failures := apply(t, section(t, many.String()+few.String()), text.String()); len(failures) != 1 ||
		failures[0].Code != fault.HunkAmbiguous {
		t.Errorf("%+v", failures)
	}
}

// Texts with many repeated lines take no longer than others.
func TestRepeatedLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(strings.Repeat("x\n", 2000)+"y\n", 10)
	hunk := "@@\n" + strings.Repeat(" x\n", 2001) + "-y\n"
	for _, hunks := range []string{hunk, strings.Repeat(hunk, 10), "@@ x\n-z\n", strings.Repeat("@@ x\n@@ y\n-z\n", 10)} {
		if _, _, failures := apply(t, section(t, hunks), text); len(failures) == 0 {
			t.Error("it fits")
		}
	}
}

// Any hunk on any text either fails in one of two ways or changes the text within its bounds, and its reverse undoes
// its changes.
func FuzzApply(f *testing.F) {
	f.Add("a\nb\nc\n", "@@ a\n b\n-c\n+d\n")
	f.Add("a\r\nb", "@@\n-b\n+c\n\\ No newline at end of file\n")
	f.Add("x\nx\nx\n", "@@ -2,1 +2,1 @@\n-x\n+y\n\n@@\n+z\n*** End of File\n")
	f.Add("\tif x {\n\t\ty()\n\t}\n", "     if x {\n-        y()\n+        z()\n")
	f.Fuzz(func(t *testing.T, text, hunks string) {
		p, err := patch.Parse(envelope("*** Update File: f\n" + hunks))
		if err != nil {
			return
		}
		for _, s := range p.Sections {
			checkOutcome(t, s, text)
		}
	})
}

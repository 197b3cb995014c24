package edit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"pgregory.net/rapid"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
)

// In a text with one kind of line break, Replace equals strings.Replace.
func TestReplaceEqualsStrings(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "b", "ab", "\n", "é", ""})
	draw := func(t *rapid.T, name string) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, name), "")
	}
	rapid.Check(t, func(t *rapid.T) {
		content, old, new, all := draw(t, "text"), draw(t, "old"), draw(t, "new"), rapid.Bool().Draw(t, "all")
		changes, err := edit.Replace(content, old, new, all)
		var want fault.Code
		switch n := strings.Count(content, old); {
		case old == new:
			want = fault.NoChange
		case old == "":
			want = fault.InvalidParams
		case n == 0:
			want = fault.OldStringNotFound
		case n > 1 && !all:
			want = fault.MultipleMatches
		}
		if want != 0 {
			if !errors.Is(err, want) {
				t.Fatalf("error %v, want %s", err, want)
			}
			return
		}
		if got := edit.Apply(content, changes); err != nil || got != strings.ReplaceAll(content, old, new) {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

// A diff of two texts, applied to the first, gives the second.
func TestDiffReproducesTheText(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"one\n", "two\n", "three\n", "\n", "four\n", "\tfive\n"})
	rapid.Check(t, func(t *rapid.T) {
		before := strings.Join(rapid.SliceOfN(line, 0, 30).Draw(t, "before"), "")
		after := strings.Join(
			rapid.SliceOfN(line, 0, 30).Draw(t, "after"),
			"",
		) + rapid.SampledFrom([]string{"", "no end"}).
			Draw(t, "end")
		diff := edit.DiffTexts("./f", before, after, 1<<20)
		if before == after {
			if diff != "" {
				t.Fatalf("the same differ by %q", diff)
			}
			return
		}
		if got := patch(before, diff); got != after {
			t.Fatalf("%q to %q by\n%s\ngives %q", before, after, diff, got)
		}
	})
}

// patch applies a unified diff and relies on its line numbers.
func patch(before, diff string) string {
	var after []string
	if diff == "" {
		return before
	}
	lines, at := strings.SplitAfter(before, "\n"), 0
	var sign byte
	for line := range strings.Lines(strings.SplitN(diff, "\n", 3)[2]) {
		switch line[0] {
		case '@':
			var start int
			fmt.Sscanf(line, "@@ -%d", &start)
			if strings.Contains(line, ",0 +") || start == 0 {
				start++ // no line is removed: the number is that of the preceding line
			}
			for ; at < start-1; at++ {
				after = append(after, lines[at])
			}
		case ' ':
			after = append(after, line[1:])
			at++
		case '-':
			at++
		case '+':
			after = append(after, line[1:])
		case '\\':
			if sign != '-' {
				after[len(after)-1] = strings.TrimSuffix(after[len(after)-1], "\n")
			}
		}
		sign = line[0]
	}
	return strings.Join(append(after, lines[at:]...), "")
}

// Diffs equal those of a common diff library if whole lines change.
func TestDiffEqualsTheLibrary(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"one\n", "two\n", "three\n", "\n"})
	rapid.Check(t, func(t *rapid.T) {
		before := strings.Join(
			rapid.SliceOfN(line, 0, 60).Draw(t, "before"),
			"",
		) + rapid.SampledFrom([]string{"", "no end"}).
			Draw(t, "end")
		after := strings.Join(
			rapid.SliceOfN(line, 0, 60).Draw(t, "after"),
			"",
		) + rapid.SampledFrom([]string{"", "no end"}).
			Draw(t, "end")
		edits := udiff.Lines(before, after)
		var changes []edit.Change
		for _, e := range edits {
			changes = append(changes, edit.Change{Start: e.Start, End: e.End, Text: e.New})
		}
		want, err := udiff.ToUnified("a/f", "b/f", before, edits, 3)
		if got := edit.Diff("./f", before, changes, 1<<20); got != want || err != nil {
			t.Fatalf("%q to %q by %v:\n%s\nwant\n%s", before, after, changes, got, want)
		}
	})
}

// The diff of any replacement inside lines turns the old text into the new one.
func TestDiffOfReplacements(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "b", "\n", "\n", "x\n", "yy"})
	rapid.Check(t, func(t *rapid.T) {
		before := strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "before"), "")
		old := strings.Join(rapid.SliceOfN(piece, 1, 3).Draw(t, "old"), "")
		new := strings.Join(rapid.SliceOfN(piece, 0, 3).Draw(t, "new"), "")
		changes, err := edit.Replace(before, old, new, true)
		if err != nil {
			return
		}
		after, diff := edit.Apply(before, changes), edit.Diff("./f", before, changes, 1<<20)
		if got := patch(before, diff); got != after {
			t.Fatalf("%q to %q by\n%s\ngives %q", before, after, diff, got)
		}
	})
}

// The diff of large unlike texts takes linear time and is one piece; invalid UTF-8 has no diff.
func TestDiffOfLargeTexts(t *testing.T) {
	t.Parallel()
	before, after := "same\n"+strings.Repeat("a\n", 200_000)+"end\n", "same\n"+strings.Repeat("b\n", 200_000)+"end\n"
	diff := edit.DiffTexts("./f", before, after, 1000)
	if !strings.HasPrefix(diff, "--- a/f\n+++ b/f\n@@ -1,200002 +1,200002 @@\n same\n-a\n") ||
		!strings.HasSuffix(diff, "[diff truncated]\n") {
		t.Errorf("diff %.80q", diff)
	}
	if diff := edit.DiffTexts("./f", "\xff", "x", 1000); diff != "" {
		t.Errorf("diff %q", diff)
	}
}

// Any replacement in any text gives valid changes or one of the refusals.
func FuzzReplace(f *testing.F) {
	f.Add("a\r\nb\n", "a\nb", "c", false)
	f.Add("x x", "x", "yx", true)
	f.Add("\xff\n", "\xff", "", false)
	f.Add("aaaa", "aa", "a", true)
	f.Add("func  f() {\n}", "func f() {\n}", "x", false)
	f.Fuzz(func(t *testing.T, text, old, new string, all bool) {
		changes, err := edit.Replace(text, old, new, all)
		if err != nil {
			switch fault.CodeOf(err) {
			case fault.NoChange, fault.InvalidParams, fault.OldStringNotFound, fault.MultipleMatches:
				return
			}
			t.Fatalf("error %v", err)
		}
		after := edit.Apply(text, changes)
		got := string(edit.Append([]byte("x"), text, changes))
		if got != "x"+after || len(after) != edit.Size(text, changes) {
			t.Fatalf("appended %q, applied %q", got, after)
		}
		if after == text {
			t.Fatalf("nothing changed in %q by %q to %q", text, old, new)
		}
		last := 0
		for _, c := range changes {
			if c.Start < last || c.End <= c.Start || c.End > len(text) {
				t.Fatalf("change %+v in a text of %d bytes", c, len(text))
			}
			last = c.End
		}
		_ = edit.Diff("./f", text, changes, 100)
	})
}

package edit

import (
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"kaged.dev/pkg/clip"
)

// context is the number of unchanged lines that a diff shows around a change.
const context = 3

// diffTruncated ends a truncated diff.
const diffTruncated = "[diff truncated]\n"

// Diff returns the unified diff of changes to the text of the file at path, cut after a line to at most limit bytes.
func Diff(path, before string, changes []Change, limit int) string {
	return DiffMoved(path, path, before, changes, limit)
}

// DiffMoved is [Diff] for a file that is moved to another path.
func DiffMoved(from, to, before string, changes []Change, limit int) string {
	edits := lineEdits(before, changes)
	if len(edits) == 0 {
		return ""
	}
	u := unified{before: before}
	u.b.WriteString("--- a/" + strings.TrimPrefix(from, "./") + "\n+++ b/" + strings.TrimPrefix(to, "./") + "\n")
	for len(edits) > 0 && u.b.Len() <= limit {
		n := 1
		for n < len(edits) && strings.Count(before[edits[n-1].End:edits[n].Start], "\n") <= 2*context {
			n++
		}
		u.hunk(edits[:n])
		edits = edits[n:]
	}
	return shorten(u.b.String(), limit)
}

// DiffTexts returns the unified diff of two whole texts, "" if one is not valid UTF-8. If the differing middle is
// larger than diffBytes, the diff shows it as one replaced piece, because the shortest diff of two large unlike texts
// takes long to find.
func DiffTexts(path, before, after string, limit int) string {
	if !utf8.ValidString(before) || !utf8.ValidString(after) {
		return ""
	}
	start, tail := common(before, after)
	old, new := before[start:len(before)-tail], after[start:len(after)-tail]
	changes := []Change{{start, start + len(old), new}}
	// A diff against nothing is found at once; the search for one would take quadratic time.
	if old != "" && new != "" && len(old)+len(new) <= diffBytes {
		changes = changes[:0]
		for _, e := range udiff.Lines(old, new) {
			changes = append(changes, Change{start + e.Start, start + e.End, e.New})
		}
	}
	return Diff(path, before, changes, limit)
}

const diffBytes = 256 << 10

// common returns the lengths of the longest common beginning and of the longest common end of two texts, both at line
// boundaries.
func common(a, b string) (start, tail int) {
	n := min(len(a), len(b))
	for start < n && a[start] == b[start] {
		start++
	}
	start = strings.LastIndexByte(a[:start], '\n') + 1
	for tail < n-start && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if begins(a, len(a)-tail) && begins(b, len(b)-tail) {
		return start, tail
	}
	if i := strings.IndexByte(a[len(a)-tail:], '\n'); i >= 0 {
		return start, tail - i - 1
	}
	return start, 0
}

// begins reports whether a line of s begins at i.
func begins(s string, i int) bool { return i == 0 || s[i-1] == '\n' }

func shorten(diff string, limit int) string {
	if len(diff) <= limit {
		return diff
	}
	return clip.Lines(diff, limit) + diffTruncated
}

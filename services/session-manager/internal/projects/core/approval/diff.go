package approval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"kaged.dev/pkg/clip"
)

// MaxDiff is the maximum size of a diff in bytes.
const MaxDiff = 64 << 10

// maxCompared is the maximum size of texts for a shortest diff, in bytes, because two large different texts take long.
// Larger ones are shown as replaced.
const maxCompared = 256 << 10

// Diff returns a unified diff of texts by path, with at most [MaxDiff] bytes; the last line has the size of the omitted
// part.
func Diff(from, to []Text) string {
	before, after := byPath(from), byPath(to)
	paths := maps.Clone(before)
	maps.Copy(paths, after)
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		old, was := before[p]
		now, is := after[p]
		if old.Content == now.Content && (was && !old.Absent) == (is && !now.Absent) {
			continue
		}
		b.WriteString(
			strings.ToValidUTF8(
				diffOf(name("a/", p, was && !old.Absent), name("b/", p, is && !now.Absent), old.Content, now.Content), "\uFFFD",
			),
		)
	}
	return bounded(b.String())
}

func byPath(texts []Text) map[string]Text {
	m := make(map[string]Text, len(texts))
	for _, t := range texts {
		m[t.Path] = t
	}
	return m
}

func name(side, p string, there bool) string {
	if !there {
		return "/dev/null"
	}
	return side + p
}

func diffOf(from, to, old, now string) string {
	if len(old)+len(now) <= maxCompared {
		return udiff.Unified(from, to, old, now)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ too large to compare: replaced as a whole @@\n", from, to)
	for line := range strings.Lines(now) {
		b.WriteString("+" + strings.TrimSuffix(line, "\n") + "\n")
	}
	for line := range strings.Lines(old) {
		b.WriteString("-" + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

func bounded(diff string) string {
	if len(diff) <= MaxDiff {
		return diff
	}
	const room = 100
	shown := clip.Lines(diff, MaxDiff-room)
	return shown + fmt.Sprintf("[the diff goes on: %d bytes more are not shown]\n", len(diff)-len(shown))
}

package tools

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/services/tool-runner/internal/core/tool"
)

// The estimated size of an entry in the answer is never less than its real size, and only slightly more
// (T-SEARCH-GREP-07).
func TestSizeOfAnEntry(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "é", "\u2028", "\x00", "\t", `"`, `\`, "<&>", "\xff", "日"})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(t, "pieces"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		m := grepMatch{
			File: text.Draw(t, "file"), Line: rapid.IntRange(0, 20_000).Draw(t, "line"),
			Count: rapid.IntRange(0, 99).Draw(t, "count"),
		}
		if rapid.Bool().Draw(t, "inside") {
			content := strings.ToValidUTF8(text.Draw(t, "content"), "\uFFFD")
			m.Content = &content
		} else {
			m.OutsideCage = true
		}
		encoded, err := tool.JSON(m)
		if err != nil {
			t.Fatal(err)
		}
		if n := m.size(); n < len(encoded)+1 {
			t.Fatalf("%s takes %d bytes with its comma, not %d", encoded, len(encoded)+1, n)
		}
		plain := grepMatch{File: "./a/b.go", Line: 17}
		if encoded, _ := tool.JSON(plain); plain.size() != len(encoded)+1 {
			t.Fatalf("%s: %d", encoded, plain.size())
		}
	})
}

package search

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A text is found at its first position, in any case if asked, with and without the processor's special instructions.
func TestFinderEqualsIndex(t *testing.T) {
	t.Parallel()
	letter := rapid.SampledFrom([]string{"a", "A", "b", "B", "_", "@", "`", "z", "Z", "[", "{", " "})
	rapid.Check(t, func(t *rapid.T) {
		fold := rapid.Bool().Draw(t, "fold")
		text := strings.Join(rapid.SliceOfN(letter, 1, 6).Draw(t, "text"), "")
		filler := strings.Repeat(letter.Draw(t, "filler"), rapid.IntRange(0, 100).Draw(t, "before"))
		data := filler + strings.Join(rapid.SliceOfN(letter, 0, 90).Draw(t, "data"), "")
		if rapid.Bool().Draw(t, "planted") {
			data += text + filler
		}
		want := strings.Index(data, text)
		if fold {
			text = strings.ToLower(text)
			want = strings.Index(strings.ToLower(data), text)
		}
		f := newFinder(text, fold)
		if got := f.index([]byte(data)); got != want {
			t.Fatalf("%q in %q (fold %v): %d, want %d", text, data, fold, got, want)
		}
		if got := f.indexPlain([]byte(data)); got != want {
			t.Fatalf("plainly, %q in %q (fold %v): %d, want %d", text, data, fold, got, want)
		}
	})
}

// BenchmarkFinder measures the search for a text of common bytes, for one in any case, and for one whose beginning is
// everywhere in the data.
func BenchmarkFinder(b *testing.B) {
	data := bytes.Repeat(
		[]byte("the of to and in is for this tenant that with return value error file request\n"),
		1<<20/78,
	)
	for name, f := range map[string]finder{
		"rare": newFinder("zzqq", false), "common": newFinder("tenant tenant", false),
		"either case": newFinder("todo(", true), "often begun": newFinder("error error", false),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				f.index(data)
			}
		})
		b.Run(name+" plainly", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				f.indexPlain(data)
			}
		})
	}
}

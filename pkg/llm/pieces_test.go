package llm_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaged.dev/pkg/llm"
)

// Pieces holds the written text, in order, for any sizes.
func TestPiecesHoldWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p llm.Pieces
		var want strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 150<<10), 0, 12).Draw(t, "sizes") {
			s := strings.Repeat(string(rune('a'+want.Len()%26)), n)
			p.WriteString(s)
			want.WriteString(s)
		}
		if p.Len() != want.Len() || p.String() != want.String() {
			t.Fatalf("got %d bytes, want %d, or others", p.Len(), want.Len())
		}
	})
}

// A long text in small pieces needs memory for its size, not a multiple of it.
func TestPiecesHoldLittleMoreThanTheText(t *testing.T) {
	const size = 8 << 20
	piece := strings.Repeat("x", 20)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var p llm.Pieces
			for p.Len() < size {
				p.WriteString(piece)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > size*11/10 {
		t.Errorf("a text of %d bytes allocates %d, want at most a tenth more", size, got)
	}
}

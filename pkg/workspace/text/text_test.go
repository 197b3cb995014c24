package text_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/workspace/text"
)

// A window keeps the lines it was asked for and counts all, however the text is cut in writing.
func TestWindowEqualsSplitting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		content := strings.Join(
			rapid.SliceOf(rapid.SampledFrom([]string{"a", "bc", "\n", "\n", "\r\n", "é", "xxxxxxxxxxxx"})).Draw(t, "content"),
			"",
		)
		w := text.Window{From: rapid.IntRange(0, 6).Draw(t, "from"), Lines: rapid.IntRange(0, 4).Draw(t, "lines"), Runes: 8}
		for rest := content; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatalf("took %d of %d, %v", got, n, err)
			}
			rest = rest[n:]
		}
		w.Finish()
		var lines, want []string
		if content != "" {
			lines = strings.Split(strings.TrimSuffix(content, "\n"), "\n")
		}
		first := max(w.From, 1)
		for i, line := range lines {
			line = strings.TrimSuffix(line, "\r")
			if cut, long := clip.Runes(line, 8); long {
				line = cut + text.Cut
			}
			if n := i + 1; n >= first && (w.Lines == 0 || n < first+w.Lines) {
				want = append(want, fmt.Sprintf("%d: %s", n, line))
			}
		}
		next := 0
		if w.Lines > 0 && len(want) == w.Lines && first+w.Lines <= len(lines) {
			next = first + w.Lines
		}
		if w.Content() != strings.Join(want, "\n") || w.Total() != len(lines) || w.Next() != next {
			t.Fatalf("%q of %d, next %d; want %q of %d, next %d", w.Content(), w.Total(), w.Next(), want, len(lines), next)
		}
	})
}

// A screen shows the same for any split of its input, keeps within its limit, and holds only whole
// characters.
func TestScreenEqualsItsInputInOnePiece(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom(
		[][]byte{
			[]byte("a"),
			[]byte("\n"),
			[]byte("\r\n"),
			[]byte("\r"),
			[]byte("é"),
			[]byte("😀"),
			{0xff},
			{0xc3},
			{0x80},
			[]byte("word "),
		},
	)
	rapid.Check(t, func(t *rapid.T) {
		data := bytes.Join(rapid.SliceOf(piece).Draw(t, "data"), nil)
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		show := func(cuts bool) string {
			var shown strings.Builder
			s := text.NewScreen(limit, func(p string) { shown.WriteString(p) })
			for rest := data; len(rest) > 0; {
				n := len(rest)
				if cuts {
					n = rapid.IntRange(1, n).Draw(t, "piece")
				}
				s.Write(rest[:n])
				rest = rest[n:]
			}
			all := s.Finish()
			if all != shown.String() {
				t.Fatalf("shown %q, kept %q", shown.String(), all)
			}
			return all
		}
		whole := show(false)
		if cut := show(true); cut != whole {
			t.Fatalf("%q in pieces is %q, in one %q", data, cut, whole)
		}
		kept, _, truncated := strings.Cut(whole, "\n[output truncated")
		if len(kept) > limit || !utf8.ValidString(whole) || strings.Contains(kept, "\r\n") ||
			truncated && len(kept) < limit-utf8.UTFMax {
			t.Fatalf("%q with limit %d is %q", data, limit, whole)
		}
	})
}

// For any output in any pieces, half of the limit's characters are the first and half the last, and
// shorter output is whole (T-T20-EXEC-04).
func TestEndsProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(
			strings.Join(
				rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "😀", "\r", "\n", "\r\n", "\xff", "\xf0\x9f", "0123456789"})).
					Draw(t, "data"),
				"",
			),
		)
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		terminal := rapid.Bool().Draw(t, "terminal")
		var shown strings.Builder
		e := text.NewEnds(limit, terminal, func(p string) { shown.WriteString(p) })
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			e.Write(rest[:n])
			rest = rest[n:]
		}
		e.Finish()
		all := []rune(shown.String())
		if !terminal && shown.String() != string([]rune(string(data))) || e.Len() != len(all) {
			t.Fatalf("of %q %q was shown", data, shown.String())
		}
		less := rapid.IntRange(2, limit).Draw(t, "less")
		got := e.Text(less)
		if len(all) <= less {
			if got != string(all) {
				t.Fatalf("%q is %q", data, got)
			}
			return
		}
		head, tail := string(all[:less/2]), string(all[len(all)-(less-less/2):])
		note := fmt.Sprintf("\n[output truncated \u2014 %d of %d characters left out]\n", len(all)-less, len(all))
		if got != head+note+tail {
			t.Fatalf("%q of %d is %q", data, less, got)
		}
	})
}

// The memory for endless output is bounded.
func TestEndsAreBounded(t *testing.T) {
	t.Parallel()
	e := text.NewEnds(100_000, false, func(string) {})
	line := []byte(strings.Repeat("x", 32<<10))
	for range 10_000 {
		e.Write(line)
	}
	e.Write([]byte("end"))
	e.Finish()
	got := e.Text(100_000)
	if n := len([]rune(got)); n > 100_100 || !strings.HasSuffix(got, "xend") || e.Len() != 10_000*(32<<10)+3 {
		t.Errorf("%d characters of %d", n, e.Len())
	}
}

// A program that prints only returns does not fill the memory.
func TestScreenOfReturns(t *testing.T) {
	t.Parallel()
	s := text.NewScreen(1<<20, func(string) {})
	for range 10_000 {
		s.Write(bytes.Repeat([]byte{'\r'}, 1000))
	}
	if all := s.Finish(); !strings.HasSuffix(all, "\n[output truncated \u2014 1 MB limit]") {
		t.Errorf("%d bytes", len(all))
	}
}

// Decoded text encodes to the same bytes again; text that would not is refused.
func TestDecodeAndEncode(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]struct {
		text string
		ok   bool
	}{
		"plain\n": {"plain\n", true}, "": {"", true}, "\xef\xbb\xbfbom": {"bom", true}, "\xff\xfeh\x00i\x00": {"hi", true},
		"\xfe\xff\x00h\x00i":       {"hi", true},
		"\xff\xfe\x3d\xd8\x00\xde": {"😀", true}, "\xff\xfe\x3d\xd8": {"\uFFFD", false}, "\xff\xfex": {"", false},
		"caf\xe9": {"caf\xe9", false},
	} {
		got, encoding, ok := text.Decode([]byte(data))
		if got != want.text || ok != want.ok {
			t.Errorf("%q: %q, %v", data, got, ok)
		}
		if ok && string(text.Encode(got, encoding)) != data {
			t.Errorf("%q came back as %q", data, text.Encode(got, encoding))
		}
	}
}

// A name with odd characters is quoted.
func TestName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plain": "plain", "a b": "a b", "new\nline": `"new\nline"`, "\xff": `"\xff"`, "über": "über",
	} {
		if got := text.Name(name); got != want {
			t.Errorf("%q is shown %s", name, got)
		}
	}
}

package clip_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/wirejson"
)

// Bytes keeps characters whole, and cuts between invalid bytes.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"aé😀", 0, ""},
		{"aé😀", -1, ""},
		{"aé😀", 1, "a"},
		{"aé😀", 2, "a"},
		{"aé😀", 3, "aé"},
		{"aé😀", 6, "aé"},
		{"aé😀", 7, "aé😀"},
		{"é\x80x", 2, "é"},
		{"\x80\x80\x80\x80\x80", 4, "\x80\x80\x80\x80"},
		{"", 5, ""},
	} {
		if got := clip.Bytes(c.s, c.n); got != c.want {
			t.Errorf("Bytes(%q, %d): got %q, want %q", c.s, c.n, got, c.want)
		}
		if got := string(clip.Bytes([]byte(c.s), c.n)); got != c.want {
			t.Errorf("Bytes([]byte(%q), %d): got %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

// Runes and Tail count characters from the front and from the end.
func TestRunesAndTail(t *testing.T) {
	t.Parallel()
	if got, cut := clip.Runes("aé😀", 2); got != "aé" || !cut {
		t.Errorf("Runes: got %q and %v, want the first two and true", got, cut)
	}
	if got, cut := clip.Runes("aé😀", 3); got != "aé😀" || cut {
		t.Errorf("Runes: got %q and %v, want all and false", got, cut)
	}
	for n, want := range []string{"", "😀", "\xff😀", "é\xff😀", "aé\xff😀", "aé\xff😀"} {
		if got := clip.Tail("aé\xff😀", n); got != want {
			t.Errorf("Tail of %d: got %q, want %q", n, got, want)
		}
	}
}

// Lines keeps whole lines.
func TestLines(t *testing.T) {
	t.Parallel()
	for n, want := range []string{"", "", "a\n", "a\n", "a\nb\n", "a\nb\n", "a\nb\ncd", "a\nb\ncd"} {
		if got := clip.Lines("a\nb\ncd", n); got != want {
			t.Errorf("Lines of %d: got %q, want %q", n, got, want)
		}
	}
	if got := clip.Lines("a", -1); got != "" {
		t.Errorf("Lines of -1: got %q, want none", got)
	}
}

// WithinRunes counts its mark.
func TestWithinRunes(t *testing.T) {
	t.Parallel()
	for n, want := range []string{"…", "…", "é…", "éß😀", "éß😀"} {
		if got := clip.WithinRunes("éß😀", n, "…"); got != want {
			t.Errorf("WithinRunes of %d: got %q, want %q", n, got, want)
		}
	}
}

// A mark follows only a text that was cut; Within counts the mark.
func TestMarks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ got, want string }{
		"marked":              {clip.Marked("ab😀c", 4, "…"), "ab…"},
		"marked, whole":       {clip.Marked("ab😀", 6, "…"), "ab😀"},
		"marked, invalid":     {clip.Marked("a\xffbcd", 3, "..."), "ab..."},
		"within":              {clip.Within("abcdef", 5, "…"), "ab…"},
		"within, whole":       {clip.Within("abcde", 5, "…"), "abcde"},
		"within, only a mark": {clip.Within("abcdef", 2, "…"), "…"},
		"runes":               {clip.MarkedRunes("aé😀", 2, "…"), "aé…"},
		"runes, whole":        {clip.MarkedRunes("aé😀", 3, "…"), "aé😀"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}

// JSON cuts between characters by their size inside a JSON string; the pieces of JSONPieces join to the text.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 100, "abc"},
		{"abc", 2, "ab"},
		{"aé", 2, "a"},
		{"a\n", 2, "a"},
		{"a\n", 3, "a\n"},
		{"\x01x", 6, "\x01"},
		{"a\xffb", 4, "a\xff"},
		{"a\xffb", 3, "a"},
		{"", 0, ""},
		{`"`, 1, ""},
	} {
		if got := clip.JSON(c.s, c.n); got != c.want {
			t.Errorf("JSON(%q, %d): got %q, want %q", c.s, c.n, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		n := rapid.IntRange(6, 40).Draw(t, "bytes")
		pieces := clip.JSONPieces(s, n)
		for _, piece := range pieces {
			if inside := len(wirejson.AppendString(nil, piece)) - 2; inside > n || piece == "" {
				t.Fatalf("piece %q takes %d of %d", piece, inside, n)
			}
		}
		if joined := strings.Join(pieces, ""); joined != s {
			t.Fatalf("%q became %q", s, joined)
		}
	})
}

// Cuts of valid text are valid, keep to the limit, and drop no more than the character at the limit.
func FuzzCuts(f *testing.F) {
	f.Add("aé😀\xff", 3)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n %= 1 << 10
		valid := utf8.ValidString(s)
		head := clip.Bytes(s, n)
		if len(head) > max(n, 0) || !strings.HasPrefix(s, head) || valid && !utf8.ValidString(head) {
			t.Errorf("Bytes(%q, %d): got %q", s, n, head)
		}
		if len(s) > n && len(head) < n-utf8.UTFMax+1 {
			t.Errorf("Bytes(%q, %d): got only %d bytes", s, n, len(head))
		}
		if first, cut := clip.Runes(s, n); n >= 0 && (utf8.RuneCountInString(first) > n || cut == (first == s)) {
			t.Errorf("Runes(%q, %d): got %q and %v", s, n, first, cut)
		}
		if tail := clip.Tail(s, n); utf8.RuneCountInString(tail) > max(n, 0) || !strings.HasSuffix(s, tail) {
			t.Errorf("Tail(%q, %d): got %q", s, n, tail)
		}
		if within := clip.Within(s, n, "…"); len(within) > max(n, len("…")) {
			t.Errorf("Within(%q, %d): got %q", s, n, within)
		}
	})
}

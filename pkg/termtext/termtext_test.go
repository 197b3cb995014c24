package termtext_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"kaged.dev/pkg/termtext"
)

// Quote returns one line that shows every character, invisible ones as escapes.
func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"git push --force":                `"git push --force"`,
		"a\nDo it? [y/N] y\n\n":           `"a\nDo it? [y/N] y\n\n"`,
		"\x1b[2J\a\r\b\x7f\u009b":         `"\x1b[2J\a\r\b\x7f\u009b"`,
		"rm \u202efdp.exe\u2066":          `"rm \u202efdp.exe\u2066"`,
		"a\u200bb\u2060c\ufeffd\u00ad":    `"a\u200bb\u2060c\ufeffd\u00ad"`,
		"a\u200db\u200c":                  `"a\u200db\u200c"`,
		"a\u00a0b\u3000c\u2028d":          `"a\u00a0b\u3000c\u2028d"`,
		"\u3164\u115f\uffa0\u2800":        `"\u3164\u115f\uffa0\u2800"`,
		"x\ufe0f\U000e0100\U000e0041":     `"x\ufe0f\U000e0100\U000e0041"`,
		"\u0301e\u0301/\u0338":            `"\u0301e` + "\u0301" + `/\u0338"`,
		"e" + strings.Repeat("\u0301", 6): `"e` + strings.Repeat("\u0301", 4) + `\u0301\u0301"`,
		`a "b" \n`:                        `"a \"b\" \\n"`,
		"\xff\xc3":                        `"\xff\xc3"`,
		"é 漢字 שלום مرحبا नमस्ते 😀 �": `"é 漢字 שלום مرحبا नमस्ते 😀 �"`,
	} {
		if got := termtext.Quote(in); got != want {
			t.Errorf("Quote(%+q) = %s, want %s", in, got, want)
		}
	}
}

// A cut text begins with its full length, and shows its beginning and its end.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 5, `"short"`},
		{"abcdefghijkl", 8, `(12 characters) "abcdef" … "kl"`},
		{"ls\n\n\n\n\n\nrm -rf x", 8, `(16 characters, 7 lines) "ls\n\n\n\n" … " x"`},
		{"ééééé", 4, `(5 characters) "ééé" … "é"`},
		{"\xff\xff\xff\xff\xff", 4, `(5 characters) "\xff\xff\xff" … "\xff"`},
	} {
		if got := termtext.Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%+q, %d) = %s, want %s", c.in, c.n, got, c.want)
		}
	}
}

// Line, Lines and Name escape the same characters and leave code readable.
func TestLine(t *testing.T) {
	t.Parallel()
	const hostile = "+\tre := `\\d\"`\u202e\n"
	if got, want := termtext.Line(hostile), "+\\tre := `\\d\"`\\u202e\\n"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
	if got, want := termtext.Lines(hostile), "+\tre := `\\d\"`\\u202e\n"; got != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
	if got := termtext.Name("a b\\c"); got != "a b\\c" {
		t.Errorf("Name of a plain name = %q", got)
	}
	if got := termtext.Name("a\nb"); got != `"a\nb"` {
		t.Errorf("Name of an odd name = %q", got)
	}
}

// Text removes only control characters and invisible characters.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Hello\x1b[2J\a\rworld\u009b1m": "Hello[2Jworld1m",
		"a\n\tb":                        "a\n\tb",
		"user\u202enimda\u202c \u2066x\u2069\u200f\u200e\u061c": "usernimda x",
		"a\u200bb\u2060\ufeff\u00ad":                            "ab",
		"para\u2029line\u2028":                                  "para\nline\n",
		"👨‍👩‍👧 ❤️ 🏳️‍🌈 👍🏽":                                      "👨‍👩‍👧 ❤️ 🏳️‍🌈 👍🏽",
		"می\u200cخواهم שלום \u0600١":                            "می\u200cخواهم שלום \u0600١",
		"\U0001F3F4\U000e0067\U000e007f ok":                     "\U0001F3F4\U000e0067\U000e007f ok",
		"hidden\U000e0067\U000e007f":                            "hidden",
		"\xff\xc3a":                                             "\uFFFDa",
	} {
		if got := termtext.Text(in); got != want {
			t.Errorf("Text(%+q) = %+q, want %+q", in, got, want)
		}
		var out bytes.Buffer
		w := termtext.NewWriter(&out)
		for i := range len(in) {
			if n, err := w.Write([]byte{in[i]}); n != 1 || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if utf8.ValidString(in) && out.String() != want {
			t.Errorf("byte by byte, %+q becomes %+q, want %+q", in, out.String(), want)
		}
	}
}

// JSON keeps the value and contains no character that a terminal would execute.
func TestJSON(t *testing.T) {
	t.Parallel()
	in := `{"a": "` + "x\u202e\u009b2J\u2028\U000e0041 é😀" + `"}`
	got := termtext.JSON(in)
	if want := `{"a": "x\u202e\u009b2J\u2028\udb40\udc41 é😀"}`; got != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	if !sameJSON(t, in, got) {
		t.Errorf("JSON(%+q) has another value: %s", in, got)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	return json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// FuzzText checks the contract of every function for any bytes: the output moves the cursor only to the next line,
// reorders and hides no text, and quoted text can be restored.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"", "ls -l", "\x1b]0;x\a", "a\u202eb\u2066", "🏴\U000e0067\U000e007f", "\xf0\x9f", "e\u0301\u0301", "\u00a0\u3164",
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		quoted := termtext.Quote(s)
		if back, err := strconv.Unquote(quoted); err != nil || back != s {
			t.Errorf("Quote(%+q) = %s, which reads as %+q, %v", s, quoted, back, err)
		}
		obeyed(t, "Quote", quoted, "")
		obeyed(t, "Cut", termtext.Cut(s, max(n%100, 1)), "")
		obeyed(t, "Line", termtext.Line(s), "")
		obeyed(t, "Name", termtext.Name(s), "")
		obeyed(t, "Lines", termtext.Lines(s), "\n\t")
		obeyed(t, "JSON", termtext.JSON(s), "\n\r\t")
		text := termtext.Text(s)
		obeyed(t, "Text", text, "\n\t")
		if termtext.Text(text) != text {
			t.Errorf("Text of Text(%+q) differs", s)
		}
		if termtext.Plain(s) != (termtext.Line(s) == s) {
			t.Errorf("Plain(%+q) = %v", s, termtext.Plain(s))
		}
		if utf8.ValidString(s) {
			var out bytes.Buffer
			w := termtext.NewWriter(&out)
			cut := min(max(n, 0), len(s))
			_, _ = w.Write([]byte(s[:cut]))
			_, _ = w.Write([]byte(s[cut:]))
			if out.String() != text {
				t.Errorf("in two pieces, %+q becomes %+q, want %+q", s, out.String(), text)
			}
		}
		if encoded, err := json.Marshal(s); err == nil && !sameJSON(t, string(encoded), termtext.JSON(string(encoded))) {
			t.Errorf("JSON(%s) has another value", encoded)
		}
	})
}

// obeyed fails for a character that a terminal would execute.
func obeyed(t *testing.T, what, shown, kept string) {
	t.Helper()
	if !utf8.ValidString(shown) {
		t.Errorf("%s gives bytes that are not UTF-8: %q", what, shown)
	}
	for _, r := range shown {
		switch {
		case strings.ContainsRune(kept, r):
		case r < 0x20, r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200b,
			r == 0x200e, r == 0x200f, r == 0x61c:
			t.Errorf("%s lets %U through: %+q", what, r, shown)
		}
	}
}

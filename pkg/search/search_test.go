package search_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"

	"kaged.dev/pkg/search"
)

// reporter is a test, or a test of package rapid.
type reporter interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// lines returns the numbers of the matching lines with their text.
func lines(t reporter, pattern string, r io.Reader) []string {
	t.Helper()
	p, err := search.Compile(pattern)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	var got []string
	if err := p.Scan(context.Background(), r, func(n int, text []byte, _ int) bool {
		got = append(got, fmt.Sprintf("%d:%s", n, text))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// naive is the result of a line-by-line search.
func naive(t reporter, pattern, text string) []string {
	t.Helper()
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if text == "" {
			break
		}
		bare := strings.TrimSuffix(line, "\r")
		if re.MatchString(line) || re.MatchString(bare) {
			got = append(got, fmt.Sprintf("%d:%s", i+1, bare))
		}
	}
	return got
}

// Each way of searching (literals, any case, several literals, the expression itself, lines with \r) gives the result
// of a test of every line.
func TestScanEqualsNaive(t *testing.T) {
	t.Parallel()
	text := "package main\n\nfunc fooError() {\n\t// TODO(ann): x\n\treturn nil, err\n}\nAB_CD and ABC_DEF\n\nKelvin " +
		"\u212Aey\n\u017Fee see\nend\r\nfoo\r\nlast foo"
	for _, pattern := range []string{
		"foo", "TODO|FIXME", `(?i)todo\(\w+\)`, `\b[A-Z]{3,}_[A-Z]+\b`, `return .*, (err|nil)$`, "^$", "$", "^", "", "a*",
		`foo$`, `^foo\r?$`, `\r`,
		`\Apackage`, `err\z`, `(?s)main.*func`, `[^a]$`, `\s+$`, `[\s\S]`, "x\ny", `(?i)key`, `(?i)see`, `(?i)kelvin|main`,
		`(foo|end)+`, `f.{2}$`, `(?i)\w+ error`,
		`(?:main|){2}`, `[A-Z]{3,}`, `[A-C]{2}_`, `[a-c]{2}\w`, `[\x{212A}k]{2,}`, `[\n]`, `o{2}`, `(?m)^end$`, `(?U)o+`,
		`(?i)É`, "_", `\x{212A}`, `nil|err|func|end|last|main|foo|TODO|Kelvin`,
	} {
		if d := cmp.Diff(naive(t, pattern, text), lines(t, pattern, strings.NewReader(text))); d != "" {
			t.Errorf("%q (- naive, + scan):\n%s", pattern, d)
		}
	}
}

// For any expression and text the result equals that of a naive search, for reads of any size.
func TestScanEqualsNaiveOnRandomText(t *testing.T) {
	t.Parallel()
	atom := rapid.SampledFrom(
		[]string{
			"a",
			"b",
			"ab",
			"A",
			"k",
			"s",
			".",
			"[ab]",
			"[^a]",
			`\b`,
			`\w`,
			`\s`,
			"^",
			"$",
			"(?i:ab)",
			"(a|bb)",
			"(?:)",
			"_",
			`[ab]{2,}`,
			`[a-b]{3}`,
			"é",
			`\r`,
			"abc",
		},
	)
	expression := rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "atoms") {
			b.WriteString(atom.Draw(t, "atom"))
			b.WriteString(rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{2}", "|"}).Draw(t, "suffix"))
		}
		return b.String()
	})
	piece := rapid.SampledFrom(
		[]string{"a", "b", "ab", "A", "B", "k", "\u212A", "\u017F", "_", " ", "\n", "\n", "\r\n", "\r", "é", "abc", "\xff"},
	)
	rapid.Check(t, func(t *rapid.T) {
		pattern := expression.Draw(t, "pattern")
		if _, err := regexp.Compile(pattern); err != nil {
			return
		}
		text := strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "text"), "")
		var r io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(t, "one byte at a time") {
			r = iotest.OneByteReader(r)
		}
		if d := cmp.Diff(naive(t, pattern, text), lines(t, pattern, r)); d != "" {
			t.Fatalf("%q in %q (- naive, + scan):\n%s", pattern, text, d)
		}
	})
}

// A file larger than the buffer, with a line longer than the buffer, is searched completely.
func TestScanBeyondTheBuffer(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for i := range 60_000 {
		fmt.Fprintf(&b, "line %d of many\n", i+1)
	}
	b.WriteString(strings.Repeat("x", 1<<20) + "needle" + strings.Repeat("y", 1<<20) + "\n")
	b.WriteString("another needle")
	got := lines(t, "needle", bytes.NewReader(b.Bytes()))
	if len(got) != 2 || !strings.HasPrefix(got[0], "60001:xxx") || got[1] != "60002:another needle" {
		t.Errorf("found %d lines", len(got))
	}
	if got := lines(t, `^line 5\d{4} `, bytes.NewReader(b.Bytes())); len(got) != 10_000 {
		t.Errorf("found %d lines", len(got))
	}
}

// Binary files have no lines (T-SEARCH-GREP-08); a byte order mark is not part of a line.
func TestScanSkipsBinary(t *testing.T) {
	t.Parallel()
	if got := lines(t, "needle", strings.NewReader("a needle\x00\n")); got != nil {
		t.Errorf("found %q", got)
	}
	if got := lines(t, "^needle", strings.NewReader("\uFEFFneedle\n")); len(got) != 1 || got[0] != "1:needle" {
		t.Errorf("behind a byte order mark: %q", got)
	}
}

// A byte order mark identifies UTF-16; lines are passed in UTF-8, with U+FFFD for invalid characters.
func TestScanUTF16(t *testing.T) {
	t.Parallel()
	text := "first\r\nö needle 日\n" + strings.Repeat("filler\n", 40_000) + "last needle"
	for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
		encoded, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []io.Reader{
			strings.NewReader(encoded), iotest.HalfReader(strings.NewReader(encoded)),
			iotest.DataErrReader(strings.NewReader(encoded)),
		} {
			if d := cmp.Diff([]string{"2:ö needle 日", "40003:last needle"}, lines(t, "needle|^日", r)); d != "" {
				t.Error(d)
			}
		}
	}
	if got := lines(t, ".", strings.NewReader("\xff\xfea\x00\x00\xd8\n\x00x")); !cmp.Equal(
		got,
		[]string{"1:a\uFFFD", "2:\uFFFD"},
	) {
		t.Errorf("broken text: %q", got)
	}
	if got := lines(t, ".", strings.NewReader("\xff\xfea\x00\x00\x00")); got != nil {
		t.Errorf("a NUL in UTF-16: %q", got)
	}
}

// A slow search ends with its context, also in the middle of a buffer (P3, T-SEARCH-GREP-06).
func TestScanEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, err := search.Compile(`(?:[ab]*a[ab]{400}){2}c`)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, 100_000)
	for i := range text {
		text[i] = "ab"[random.IntN(2)]
	}
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	err = p.Scan(ctx, readerFunc(func(b []byte) (int, error) {
		if reads++; reads > 1 {
			cancel()
			return 0, io.EOF
		}
		return copy(b, text), nil
	}), func(int, []byte, int) bool { return true })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// An automaton's memory is limited, and dropping states changes no result: a text that constantly needs new states
// gives the same result as a naive search.
func TestScanBeyondWhatIsRemembered(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	var text strings.Builder
	for range 300 {
		for range 100 {
			text.WriteByte("ab"[random.IntN(2)])
		}
		text.WriteByte('\n')
	}
	for _, pattern := range []string{`[ab]*a[ab]{60}b$`, `a[ab]{12}b[ab]{30}a[ab]{40}a$`, `a.{50}b.{20}b\b`} {
		if d := cmp.Diff(naive(t, pattern, text.String()), lines(t, pattern, strings.NewReader(text.String()))); d != "" {
			t.Errorf("%s: %s", pattern, d)
		}
	}
}

// The error names syntax that RE2 does not support.
func TestCompileExplains(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"(": "missing closing ): `(`", "(?=x)": "look-around", `(a)\1`: "back references", "[": "missing closing ]",
		"a**":     "invalid nested repetition",
		"x{2000}": "invalid repeat count", strings.Repeat(`\w{900}`, 30): "too large", `(?<!x)y`: "look-around",
	} {
		if _, err := search.Compile(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// Any search in any text ends and agrees with the naive search.
func FuzzScan(f *testing.F) {
	f.Add("foo|bar", "a foo\nbar\r\n")
	f.Add("(?i)k", "\u212A\n")
	f.Add("$", "\n\n")
	f.Add(`[^\n]*\r`, "\r\r\n")
	f.Add("o$", "\xfe\xff\x00n\x00o\x00\n\x00o\x00")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		meant := decoded(text)
		if _, err := regexp.Compile(pattern); err != nil || len(pattern) > 100 || strings.Contains(meant, "\x00") ||
			strings.HasPrefix(text, "\uFEFF") {
			return
		}
		if _, err := search.Compile(pattern); err != nil {
			return
		}
		if d := cmp.Diff(naive(t, pattern, meant), lines(t, pattern, strings.NewReader(text))); d != "" {
			t.Fatalf("%q in %q:\n%s", pattern, text, d)
		}
	})
}

// decoded converts a text with a UTF-16 mark to UTF-8, and returns any other unchanged. It decodes half a surrogate
// pair as the library does.
func decoded(text string) string {
	order := unicode.LittleEndian
	switch {
	case strings.HasPrefix(text, "\xfe\xff"):
		order = unicode.BigEndian
	case !strings.HasPrefix(text, "\xff\xfe"):
		return text
	}
	plain, err := unicode.UTF16(order, unicode.ExpectBOM).NewDecoder().String(text)
	if err != nil {
		panic(err) // the decoder replaces invalid input and does not fail
	}
	return plain
}

// Words finds literal words only, and only as whole words. Parts of a text that signs join are not words.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, found, missed string }{
		{"key", "key\na key=1\n(key)\nx.key: \"key\"", "keys\nmonkey\nkey_1\n1key\nkey\u00e9\nkeye\u0301"},
		{"Kq", "Kq", "pw=x9$Kq!7-pL&2z\na-Kq\nKq+a/Kq\n\\Kq\n%Kq%"},
		{"(?i)K\u00e9y", "k\u00e9Y", "k\u00e9ys"},
		{"[a]b(?:c)", "abc", "abcd"},
	} {
		p, err := search.Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		words, ok := p.Words()
		if !ok {
			t.Fatalf("%q has no words", c.pattern)
		}
		for text, want := range map[string]int{c.found: strings.Count(c.found, "\n") + 1, c.missed: 0} {
			got := 0
			err := words.Scan(t.Context(), strings.NewReader(text), func(int, []byte, int) bool { got++; return true })
			if err != nil || got != want {
				t.Errorf("%q in %q: %d lines, %v, want %d", c.pattern, text, got, err, want)
			}
		}
	}
	for _, pattern := range []string{
		"", "a?", "a|b", "^a", `\ba`, "a.", "[ab]c", "(a)", "a*", "a b", "a=", `a\.b`, "a-b",
	} {
		p, err := search.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Words(); ok {
			t.Errorf("%q is a literal word", pattern)
		}
	}
}

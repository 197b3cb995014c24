package termtext_test

import (
	"bytes"
	"strings"
	"testing"

	"kaged.dev/pkg/termtext"
)

// Drawing passes byte for byte, however the writes are split; strings for the terminal itself do not pass, nor do
// questions in a replay.
func TestProgram(t *testing.T) {
	t.Parallel()
	const (
		drawn     = "\x1b[1;31mx\x1b[0m\x1b[2J\x1b[?1049h\x1b7\x1b(B"
		questions = "\x1b[6n\x1b[c\x1b[>c\x1b[?1$p\x1b[>q\x1bZ"
	)
	long := strings.Repeat("x", 70000)
	for name, x := range map[string]struct{ in, live, replay string }{
		"text":                     {"a\r\n€\U0001f600\t\b", "a\r\n€\U0001f600\t\b", "a\r\n€\U0001f600\t\b"},
		"colours and the cursor":   {drawn, drawn, drawn},
		"the title":                {"a\x1b]0;owned\x07b\x1b]2;owned\x1b\\c", "abc", "abc"},
		"the clipboard":            {"\x1b]52;c;cm0=\x07x", "x", "x"},
		"strings of eight bits":    {"a\u009d0;x\u009cb\u0090q\x1b\\c\x9d0;y\x07", "abc0;y\x07", "abc0;y\x07"},
		"a device control string":  {"\x1bP$q\"p\x1b\\a\x1b_x\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d", "abcd", "abcd"},
		"a string that never ends": {"\x1b]0;" + long + "\x07y", long[65535:] + "\x07y", long[65535:] + "\x07y"},
		"a string that is cut off": {"\x1b]0;x\x1b[1my", "\x1b[1my", "\x1b[1my"},
		"questions":                {questions + "\x05x", questions + "x", "x"},
		"the window":               {"\x1b[8;1;1t\x1b[21tx", "x", "x"},
		"a control of eight bits":  {"\u009b31mx\x9b2Jy", "\x1b[31mx2Jy", "\x1b[31mx2Jy"},
		"no character":             {"\xc2A\xff\xe2\x82x", "\xc2A\xff\xe2\x82x", "\xc2A\xff\xe2\x82x"},
	} {
		for _, step := range []int{1, 3, 1 << 20} {
			for replay, want := range map[bool]string{false: x.live, true: x.replay} {
				var out bytes.Buffer
				p := termtext.NewProgram(&out)
				p.Replay(replay)
				for in := []byte(x.in); len(in) > 0; in = in[min(step, len(in)):] {
					if n, err := p.Write(in[:min(step, len(in))]); err != nil || n == 0 {
						t.Fatal(n, err)
					}
				}
				if out.String() != want {
					t.Errorf("%s, in steps of %d, replay %t: %.80q, want %.80q", name, step, replay, out.String(), want)
				}
			}
		}
	}
}

// The output of a Program contains no string for the terminal.
func FuzzProgram(f *testing.F) {
	f.Add([]byte("\x1b]0;x\x07"), 1)
	f.Add([]byte("\xc2\x9d0;x\x1b\x1b]\xc2\xc2\x90"), 2)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		var out bytes.Buffer
		p := termtext.NewProgram(&out)
		cut = min(max(cut, 0), len(in))
		for _, part := range [][]byte{in[:cut], in[cut:]} {
			if _, err := p.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		for _, begin := range []string{
			"\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\u009d", "\u0090", "\u009f", "\u009e", "\u0098", "\x05",
		} {
			if strings.Contains(out.String(), begin) {
				t.Fatalf("%q passes as %q", in, out.String())
			}
		}
	})
}

package lsp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"kaged.dev/services/lsp-pool/internal/lsp"
)

// A position names the same byte in every encoding.
func TestPositions(t *testing.T) {
	t.Parallel()
	text := lsp.NewText("a\r\nä€😀x\rlast")
	for _, c := range []struct {
		offset int
		e      lsp.Encoding
		want   lsp.Position
	}{
		{0, lsp.UTF16, lsp.Position{}},
		{3, lsp.UTF16, lsp.Position{Line: 1}},
		{12, lsp.UTF8, lsp.Position{Line: 1, Character: 9}},
		{12, lsp.UTF16, lsp.Position{Line: 1, Character: 4}},
		{12, lsp.UTF32, lsp.Position{Line: 1, Character: 3}},
		{18, lsp.UTF16, lsp.Position{Line: 2, Character: 4}},
	} {
		if got := text.Position(c.offset, c.e); got != c.want {
			t.Errorf("byte %d in %s is %v, want %v", c.offset, c.e, got, c.want)
		}
		if got := text.Offset(c.want, c.e); got != c.offset {
			t.Errorf("%v in %s is byte %d, want %d", c.want, c.e, got, c.offset)
		}
	}
	if got := text.Offset(lsp.Position{Line: 1, Character: 3}, lsp.UTF16); got != 8 {
		t.Errorf("a place inside a rune is byte %d, want its start, 8", got)
	}
	if text.Offset(lsp.Position{Line: 0, Character: 99}, lsp.UTF8) != 1 || text.Offset(lsp.Position{Line: 99},
		lsp.UTF8) != 18 {
		t.Error("a place past the end is not the end")
	}
}

// Either all edits are made or the text stays unchanged.
func TestApply(t *testing.T) {
	t.Parallel()
	edit := func(l1, c1, l2, c2 uint32, s string) lsp.TextEdit {
		return lsp.TextEdit{Range: lsp.Range{Start: lsp.Position{Line: l1, Character: c1}, End: lsp.Position{
			Line:      l2,
			Character: c2,
		}}, NewText: s}
	}
	text := lsp.NewText("one\ntwo\n")
	for name, c := range map[string]struct {
		edits []lsp.TextEdit
		want  string
	}{
		"out of order": {[]lsp.TextEdit{edit(1, 0, 1, 3, "2"), edit(0, 0, 0, 3, "1")}, "1\n2\n"},
		"at one place": {[]lsp.TextEdit{edit(0, 0, 0, 0, "a"), edit(0, 0, 0, 0, "b"), edit(0, 0, 0, 1, "O")}, "abOne\ntwo\n"},
		"at the end":   {[]lsp.TextEdit{edit(2, 0, 2, 0, "x")}, "one\ntwo\nx"},
		"all":          {[]lsp.TextEdit{edit(0, 0, 99, 0, "")}, ""},
		"overlapping":  {[]lsp.TextEdit{edit(0, 0, 0, 2, "a"), edit(0, 1, 0, 3, "b")}, ""},
		"reversed":     {[]lsp.TextEdit{edit(1, 0, 0, 0, "a")}, ""},
		"past the end": {[]lsp.TextEdit{edit(90, 0, 90, 0, "a")}, ""},
	} {
		got, err := text.Apply(c.edits, lsp.UTF16)
		if fails := c.want == "" && name != "all"; fails != (err != nil) || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A workspace edit is accepted completely, or refused.
func TestWorkspaceEdit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`null`: "[]",
		`{"changes":{"file:///b":[], "file:///a%20b":[]}}`:                                  "[{1 /a b  [] 0} {1 /b  [] 0}]",
		`{"documentChanges":[{"textDocument":{"uri":"file:///a","version":3},"edits":[]}]}`: "[{1 /a  [] 3}]",
		`{"documentChanges":[{"kind":"rename","oldUri":"file:///a","newUri":"file:///b"}]}`: "[{3 /a /b [] 0}]",
		`{"documentChanges":[{"kind":"create","uri":"file:///a"},
			{"kind":"delete","uri":"file:///b"}]}`: "[{2 /a  [] 0} {4 /b  [] 0}]",
		`{"documentChanges":[{"kind":"chmod","uri":"file:///a"}]}`: "",
		`{"changes":{"http://a/b":[]}}`:                            "",
		`{"changes":{"file://host/b":[]}}`:                         "",
		`{"changes":{"file:relative":[]}}`:                         "",
		`{"changes":[]}`:                                           "",
	} {
		list, err := lsp.ParseWorkspaceEdit(json.RawMessage(text))
		got := fmt.Sprint(list)
		if (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	var many strings.Builder
	for i := range 2100 {
		fmt.Fprintf(&many, `,"file:///%d":[]`, i)
	}
	if _, err := lsp.ParseWorkspaceEdit(json.RawMessage(`{"changes":{` + many.String()[1:] + `}}`)); err == nil {
		t.Error("an edit of 2,100 files was taken")
	}
}

// sink reads frames from text and discards writes.
type sink struct{ io.Reader }

func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) Close() error                { return nil }

// Broken frames are errors; they cause neither a panic nor a large allocation.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		"Content-Length: 2\r\n\r\n{}", "Content-Length: 2\n\n{}Content-Length: 99999999999\r\n\r\n",
		"Content-Length: -1\r\n\r\n", "a\r\n\r\n",
		"Content-Type: x\r\ncontent-length:3\r\n\r\n[1]", strings.Repeat("A: b\r\n", 2000), strings.Repeat("x", 10000),
		"\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read := lsp.ReadFrames(sink{bytes.NewReader(data)}, 1<<16)
		if total := len(bytes.Join(read, nil)); total > len(data) {
			t.Errorf("%d bytes were read from %d", total, len(data))
		}
	})
}

// A position is converted to a byte of the text and back, in each encoding.
func FuzzPositions(f *testing.F) {
	f.Add("a\r\nä€😀\rx", uint32(1), uint32(2))
	f.Add("\xff\xfe\n\xf0\x9f", uint32(0), uint32(9))
	f.Fuzz(func(t *testing.T, content string, line, character uint32) {
		text := lsp.NewText(content)
		for _, e := range []lsp.Encoding{lsp.UTF8, lsp.UTF16, lsp.UTF32} {
			at := text.Offset(lsp.Position{Line: line, Character: character}, e)
			if at < 0 || at > len(content) || utf8.ValidString(content) && at < len(content) && !utf8.RuneStart(content[at]) {
				t.Fatalf("%s: byte %d of %d", e, at, len(content))
			}
			if back := text.Offset(text.Position(at, e), e); back != at {
				t.Errorf("%s: byte %d came back as %d", e, at, back)
			}
		}
		if utf8.ValidString(content) && !strings.ContainsAny(content, "\r\n") {
			if got := text.Position(len(content), lsp.UTF16).Character; int(got) != len(utf16.Encode([]rune(content))) {
				t.Errorf("%q ends at %d", content, got)
			}
		}
	})
}

// A workspace edit is applied within the text, or refused.
func FuzzEdits(f *testing.F) {
	f.Add([]byte(`{"changes":{"file:///a":[
		{"range":{"start":{"line":0,"character":1},"end":{"line":1,"character":0}},"newText":"x"}]}}`), "ab\ncd")
	f.Add([]byte(`{"documentChanges":[{"kind":"rename","oldUri":"file:///a","newUri":"file:///b"}]}`), "")
	f.Fuzz(func(t *testing.T, raw []byte, content string) {
		list, err := lsp.ParseWorkspaceEdit(raw)
		if err != nil {
			return
		}
		for _, op := range list {
			if !strings.HasPrefix(op.Path, "/") || strings.Contains(op.Path, "/../") {
				t.Errorf("path %q", op.Path)
			}
			_, _ = lsp.NewText(content).Apply(op.Edits, lsp.UTF16)
		}
	})
}

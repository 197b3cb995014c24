package wire_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/llm/wire"
)

// events reads a stream to its end; the last line is the error unless it is io.EOF.
func events(r io.Reader, limit int) []string {
	reader := wire.NewReader(r, limit)
	var out []string
	for {
		ev, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return append(out, "error: "+err.Error())
		}
		out = append(out, fmt.Sprintf("%s|%s", ev.Name, ev.Data))
	}
}

// A stream is split into events as the standard says, for all line endings; an event cut off by the end is delivered
// too.
func TestReader(t *testing.T) {
	for stream, want := range map[string][]string{
		"":                                            nil,
		"\n\n\n":                                      nil,
		"data: a\n\n":                                 {"|a"},
		"data:a\n\ndata:  b\n\n":                      {"|a", "| b"},
		"event: x\ndata: a\n\ndata: b\n\n":            {"x|a", "|b"},
		"event: x\n\ndata: b\n\n":                     {"|b"},
		"data: a\ndata: b\ndata:\n\n":                 {"|a\nb\n"},
		"data\n\n":                                    {"|"},
		": comment\ndata: a\n: more\n\n":              {"|a"},
		"id: 7\nretry: 9\nodd\ndata: a\n\n":           {"|a"},
		"data: a\r\n\r\ndata: b\r\n\r\n":              {"|a", "|b"},
		"data: a\r\rdata: b\r\r":                      {"|a", "|b"},
		"data: a\r\n\ndata: b\n\r\n":                  {"|a", "|b"},
		"\xef\xbb\xbfdata: a\n\n":                     {"|a"},
		"data: \xef\xbb\xbf\n\n":                      {"|\xef\xbb\xbf"},
		"data: a":                                     {"|a"},
		"data: a\n":                                   {"|a"},
		"event: x\ndata: a\nevent: y":                 {"y|a"},
		"data: " + strings.Repeat("x", 9000) + "\n\n": {"|" + strings.Repeat("x", 9000)},
	} {
		if diff := cmp.Diff(want, events(strings.NewReader(stream), 1<<20)); diff != "" {
			t.Errorf("%.40q: %s", stream, diff)
		}
	}
}

// The sizes of reads make no difference.
func TestReaderPieces(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"data: a", "data:b", "event: n", ":c", "\n", "\r", "\r\n", "\n\n", "data: ü", "\xef\xbb\xbf", "x",
	})
	rapid.Check(t, func(t *rapid.T) {
		stream := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		whole := events(strings.NewReader(stream), 1<<20)
		for name, r := range map[string]io.Reader{
			"bytes": iotest.OneByteReader(strings.NewReader(stream)), "halves": iotest.HalfReader(strings.NewReader(stream)),
			"with the end": iotest.DataErrReader(strings.NewReader(stream)),
		} {
			if diff := cmp.Diff(whole, events(r, 1<<20)); diff != "" {
				t.Fatalf("%q by %s: %s", stream, name, diff)
			}
		}
	})
}

// Lines and events beyond the limit are refused, and a connection's error is returned after its data.
func TestReaderLimits(t *testing.T) {
	for _, piece := range []string{"x", "data: xxxxxxxx\n", "data:\n"} {
		endless := io.MultiReader(strings.NewReader("data: ok\n\n"), repeat(piece))
		got := events(endless, 10_000)
		if len(got) != 2 || got[0] != "|ok" || !strings.HasPrefix(got[1], "error: more data") {
			t.Errorf("endless %q: %v", piece, got)
		}
	}
	broken := io.MultiReader(strings.NewReader("data: ok\n\ndata: half"), iotest.ErrReader(errors.New("gone")))
	if diff := cmp.Diff([]string{"|ok", "error: gone"}, events(broken, 100)); diff != "" {
		t.Error(diff)
	}
}

type repeat string

// Read fills p.
func (r repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], r)
	}
	return n, nil
}

// The reader neither panics nor hangs on any bytes.
func FuzzReader(f *testing.F) {
	f.Add([]byte("event: x\r\ndata: a\r\n\r\n: c\rdata: b"))
	f.Add([]byte("\xef\xbb\xbf:\n\ndata"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		total := 0
		for _, ev := range events(strings.NewReader(string(stream)), 64) {
			total += len(ev)
		}
		if total > 3*len(stream)+100 {
			t.Errorf("%d bytes became %d", len(stream), total)
		}
	})
}

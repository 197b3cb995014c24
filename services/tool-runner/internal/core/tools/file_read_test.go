package tools_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// readResult is the answer of file.read.
type readResult struct {
	Path, Type, Content string
	TotalLines          *int `json:"total_lines"`
	Truncated           *bool
	NextOffset          *int `json:"next_offset"`
	Size                *int64
	MIME                string
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// A file is returned as numbered lines with its path, type and number of lines (T-FILE-READ-02, -03, TN-FILE-1).
func TestReadAFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("src/a.txt", "a\nb")
	var r readResult
	o := b.ok("file.read", in{"path": "./src/a.txt"}, &r)
	if want := `{"path":"./src/a.txt","type":"file","content":"1: a\n2: b","total_lines":2,"truncated":false}`; o.Result.Content !=
		want {
		t.Errorf("content %s", o.Result.Content)
	}
	for content, want := range map[string]string{
		"": "", "\n": "1: ", "x\r\ny\r\n": "1: x\n2: y", "<a> & \"b\"\n": `1: <a> & "b"`, "\xff\xfe\x00": "1: \uFFFD",
		"caf\xe9\n":         "1: caf\uFFFD",
		"\xef\xbb\xbfbom\n": "1: bom", "\r\r\n": "1: \r",
	} {
		b.write("b.txt", content)
		r = readResult{}
		if b.ok("file.read", in{"path": "b.txt"}, &r); r.Content != want {
			t.Errorf("%q reads %q (%s), want %q", content, r.Content, r.Type, want)
		}
	}
}

// offset and limit select a page of a file, and the line numbers stay those of the file (T-FILE-READ-01, -04,
// TN-FILE-3).
func TestReadPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("hundred", numbered(1, 100))
	b.write("many", numbered(1, 2500))
	check := func(params in, first, last string, total int, next int) {
		t.Helper()
		var r readResult
		b.ok("file.read", params, &r)
		if !strings.HasPrefix(r.Content, first) || !strings.HasSuffix(r.Content, last) || *r.TotalLines != total {
			t.Errorf("%v: %.40q ... of %d lines", params, r.Content, *r.TotalLines)
		}
		if *r.Truncated != (next > 0) || next > 0 && *r.NextOffset != next {
			t.Errorf("%v: truncated %v, next %v, want %d", params, *r.Truncated, r.NextOffset, next)
		}
	}
	check(in{"path": "hundred", "offset": 10, "limit": 11}, "10: line 10\n", "\n20: line 20", 100, 21)
	check(in{"path": "hundred", "offset": 90}, "90: ", "100: line 100", 100, 0)
	check(in{"path": "hundred", "offset": 90, "limit": 11}, "90: ", "100: line 100", 100, 0)
	check(in{"path": "hundred", "offset": 500}, "", "", 100, 0)
	check(in{"path": "many"}, "1: line 1\n", "\n2000: line 2000", 2500, 2001)
	check(in{"path": "many", "offset": 2001.0}, "2001: ", "2500: line 2500", 2500, 0)
	b.fails(fault.InvalidParams, "file.read", in{"path": "many", "offset": 0})
	b.fails(fault.InvalidParams, "file.read", in{})
}

// One answer has at most 512 KiB and the line to continue at. A long line is cut and marked (T-FILE-READ-05, decision
// 18).
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("wide", strings.Repeat(strings.Repeat("w", 1000)+"\n", 1500))
	var r readResult
	b.ok("file.read", in{"path": "wide"}, &r)
	if len(r.Content) > 512<<10 || len(r.Content) < 500<<10 || !*r.Truncated ||
		*r.NextOffset != strings.Count(r.Content, "\n")+2 {
		t.Errorf("%d bytes, next %v", len(r.Content), r.NextOffset)
	}
	b.write("long", strings.Repeat("x", 5000)+"\n"+strings.Repeat("é", 2000)+"\nshort\n")
	b.ok("file.read", in{"path": "long"}, &r)
	if want := "1: " + strings.Repeat("x", 2000) + "[truncated]\n2: " + strings.Repeat("é", 2000) +
		"\n3: short"; r.Content != want {
		t.Errorf("long lines read %.60q ... %q", r.Content, r.Content[len(r.Content)-30:])
	}
}

// The alias read counts from 0 and has pages of 50 KB or of a number of lines; the text names the offset to continue at
// (T-T20-READ-01..03).
func TestReadAsTheFlatTool(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("big", strings.Repeat(strings.Repeat("w", 99)+"\n", 2048))
	var flat, own readResult
	o := b.ok("read", in{"path": "big", "offset": 0}, &flat)
	b.ok("file.read", in{"path": "big", "offset": 1, "limit": 1}, &own)
	if first, _, _ := strings.Cut(flat.Content, "\n"); first != own.Content {
		t.Errorf("first lines %q and %q", first, own.Content)
	}
	notice := fmt.Sprintf("\n[truncated: continue with offset %d]", *flat.NextOffset)
	if n := len(flat.Content); n < 45<<10 || n > 51<<10 || !strings.HasSuffix(flat.Content, notice) {
		t.Errorf("%d bytes end in %q", n, flat.Content[n-60:])
	}
	b.ok("read", in{"path": "big", "offset": *flat.NextOffset, "limit": 1}, &own)
	if !strings.HasPrefix(own.Content, fmt.Sprintf("%d: www", *flat.NextOffset+1)) {
		t.Errorf("the next page begins %.20q", own.Content)
	}
	b.ok("read", in{"path": "big", "limit": 2048}, &flat)
	if strings.Count(flat.Content, "\n") != 2047 || *flat.Truncated {
		t.Errorf("by lines: %d line breaks, truncated %v", strings.Count(flat.Content, "\n"), *flat.Truncated)
	}
	if called := b.record(o, "tool.called"); called["tool_name"] != "file.read" || called["alias"] != "read" ||
		o.Tool != "file.read" {
		t.Errorf("record %v", called)
	}
	b.ok("read_file", in{"path": "big", "offset": 1, "limit": 1}, nil)
}

// A binary file is described, not shown (T-FILE-READ-06, TN-FILE-2).
func TestReadBinary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for content, mime := range map[string]string{
		"\x89PNG\x0D\x0A\x1A\x0A\x00\x00": "image/png", "text\x00more": "application/octet-stream",
		"%PDF-1.4\nx":          "application/pdf",
		"\x1f\x8b\x08\xff\xff": "application/x-gzip", "BM\xff\xfe\xfd": "image/bmp",
	} {
		b.write("f", content)
		var r readResult
		if b.ok("file.read", in{"path": "f"}, &r); r.Type != "binary" || r.MIME != mime || *r.Size != int64(len(content)) ||
			r.TotalLines != nil {
			t.Errorf("%q: %+v", content, r)
		}
	}
	for _, content := range []string{
		"BMW is a car\n", "GIF89a is how a file may begin\n", "\x01 odd\n", "\x1b[31mred\x1b[0m\n",
	} {
		b.write("f", content)
		var r readResult
		if b.ok("file.read", in{"path": "f"}, &r); r.Type != "file" {
			t.Errorf("%q is %s", content, r.Type)
		}
	}
}

// UTF-16 with a byte order mark is text.
func TestReadUTF16(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, big := range []bool{false, true} {
		data := []byte{}
		for _, u := range append([]uint16{0xFEFF}, utf16.Encode([]rune("zwei\nüber 😀\n"))...) {
			low, high := byte(u), byte(u>>8)
			if big {
				low, high = high, low
			}
			data = append(data, low, high)
		}
		b.write("u16", string(data))
		var r readResult
		if b.ok("file.read", in{"path": "u16"}, &r); r.Content != "1: zwei\n2: über 😀" || *r.TotalLines != 2 {
			t.Errorf("big endian %v: %q", big, r.Content)
		}
	}
}

// A folder is listed with one entry per line, subfolders with a slash, unusual names quoted (T-FILE-READ-07).
func TestReadAFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"src/main.go", "src/sub/x", "src/new\nline", "src/.hidden"} {
		b.write(name, "")
	}
	var r readResult
	b.ok("file.read", in{"path": "./src"}, &r)
	if r.Type != "directory" || r.Content != ".hidden\nmain.go\n\"new\\nline\"\nsub/" || *r.TotalLines != 4 {
		t.Errorf("listed %+v", r)
	}
	b.ok("file.read", in{"path": "./src", "offset": 2, "limit": 1}, &r)
	if r.Content != "main.go" || !*r.Truncated || *r.NextOffset != 3 {
		t.Errorf("listed %+v", r)
	}
	b.ok("file.read", in{"path": "."}, &r)
	if r.Path != "./" || r.Content != "src/" {
		t.Errorf("the root: %+v", r)
	}
}

// Irregular files, such as a pipe without a writer, are refused at once (T-FILE-READ-08).
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := unix.Mkfifo(filepath.Join(b.root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A socket's path must be short, so the socket is created in a folder with a short name and moved.
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Rename(filepath.Join(short, "s"), filepath.Join(b.root, "socket")); err != nil {
		t.Fatal(err)
	}
	b.link("/dev/null", "device")
	b.link("loop", "loop")
	b.link("gone", "dangling")
	b.write("file", "x")
	for path, code := range map[string]fault.Code{
		"./nope": fault.FileNotFound, "file/x": fault.FileNotFound, "dangling": fault.FileNotFound,
		"pipe":   fault.FileNotRegular,
		"socket": fault.FileNotRegular, "device": fault.InvalidParams, "loop": fault.InvalidParams, "": fault.InvalidParams,
		"a\x00b": fault.InvalidParams, strings.Repeat("d/", 3000): fault.InvalidParams, "../x": fault.InvalidParams,
		"/etc/passwd": fault.InvalidParams,
	} {
		b.fails(code, "file.read", in{"path": path})
	}
}

// Links are followed as long as they stay in the project. A link that leaves it is refused with the path of its target
// (C25).
func TestReadThroughLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	real := b.write("src/real.txt", "here\n")
	b.link("src", "folder")
	b.link("folder/real.txt", "relative")
	b.link(real, "absolute")
	b.link("src/../../../../../../../etc/passwd", "escape")
	b.link("/etc", "etc")
	var r readResult
	for _, path := range []string{
		"relative", "./absolute", "folder/real.txt", real, "folder/../src/real.txt", "./folder//./real.txt",
	} {
		if b.ok("file.read", in{"path": path}, &r); r.Content != "1: here" {
			t.Errorf("%s reads %q", path, r.Content)
		}
	}
	for _, path := range []string{"escape", "etc/passwd", "../../../../../../etc/passwd"} {
		if f := b.fails(fault.InvalidParams, "file.read", in{"path": path}); f.Details["resolved"] != "/etc/passwd" ||
			!strings.Contains(f.Msg, "/etc/passwd") {
			t.Errorf("%s: %v %v", path, f.Msg, f.Details)
		}
	}
}

// A cage grants access by folders, not by name prefixes, and with links resolved (T-PERM-03, -04, -07, T-FILE-READ-09,
// -10, TN-PERM-1).
func TestReadInACage(t *testing.T) {
	t.Parallel()
	for _, seccomp := range []string{"", "default", "relaxed"} {
		b := caged(t, &dsl.Cage{
			FS: []dsl.Mount{{Mode: "ro", Path: "./src"}, {Mode: "rw", Path: "project:/lib"}}, Seccomp: seccomp,
		})
		for _, name := range []string{"src/main.ts", "src2/main.ts", "data/secrets.json", "lib/x"} {
			b.write(name, "x\n")
		}
		b.link("../data/secrets.json", "src/leak")
		b.ok("file.read", in{"path": "./src/main.ts"}, nil)
		b.ok("file.read", in{"path": "lib/x"}, nil)
		for _, path := range []string{
			"./data/secrets.json", "./src2/main.ts", "./src/leak", "./src/../data/secrets.json", ".",
		} {
			f := b.fails(fault.CapabilityDenied, "file.read", in{"path": path})
			if f.Details["required"] != "ro:fs:"+path {
				t.Errorf("%s: details %v", path, f.Details)
			}
		}
	}
}

// A file of 100 MB is read line by line and never completely in memory.
func TestReadAHugeFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f, err := os.Create(filepath.Join(b.root, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat(strings.Repeat("0123456789", 9)+"abcdefghi\n", 10_000))
	for range 100 {
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	var r readResult
	b.ok("file.read", in{"path": "huge", "offset": 999_999, "limit": 5}, &r)
	if *r.TotalLines != 1_000_000 || *r.Truncated || !strings.HasPrefix(r.Content, "999999: 0123") {
		t.Errorf("read %.40q of %d lines", r.Content, *r.TotalLines)
	}
}

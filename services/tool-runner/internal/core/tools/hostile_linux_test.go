package tools_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
)

// during repeats disturb until work has returned.
func during(t *testing.T, disturb func() error, work func()) {
	t.Helper()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := disturb(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer group.Wait()
	defer close(stop)
	work()
}

// If a folder is replaced by a link to the outside between the check and the change, the change fails. No file outside
// is read, changed, created or removed (T-PATH-06).
func TestFoldersThatBecomeLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.from.KnowsFiles = true
	outside := filepath.Join(filepath.Dir(b.root), "outside")
	for _, name := range []string{"edit", "gone", "moved"} {
		if err := errors.Join(os.MkdirAll(outside, 0o755),
			os.WriteFile(filepath.Join(outside, name), []byte("secret\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	b.write("dir/edit", "a\n")
	b.link(outside, "link")
	swap := func() error {
		return unix.Renameat2(unix.AT_FDCWD, filepath.Join(b.root, "dir"), unix.AT_FDCWD, filepath.Join(b.root, "link"),
			unix.RENAME_EXCHANGE)
	}
	during(t, swap, func() {
		for i := range 300 {
			for name, params := range map[string]in{
				"file.read":   {"path": "dir/edit"},
				"file.write":  {"path": "dir/edit", "content": "a\n"},
				"file.create": {"path": fmt.Sprintf("dir/new/%d", i), "content": "x"},
				"edit.text":   {"path": "dir/edit", "old_string": "secret", "new_string": "taken"},
				"edit.patch": envelope("*** Update File: dir/edit\n-secret\n+taken\n", "*** Delete File: dir/gone\n",
					"*** Update File: dir/moved\n*** Move to: stolen\n"),
			} {
				o, err := b.do(t.Context(), name, params)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(o.Result.Content, "1: secret") {
					t.Fatalf("%s reads what is outside", name)
				}
			}
		}
	})
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 3 {
		t.Fatalf("outside holds %v, %v", entries, err)
	}
	for _, e := range entries {
		if data, err := os.ReadFile(filepath.Join(outside, e.Name())); err != nil || string(data) != "secret\n" {
			t.Errorf("%s holds %q, %v", e.Name(), data, err)
		}
	}
	if b.content("stolen") != "(none)" {
		t.Error("a file came in from outside")
	}
}

// A file that becomes a pipe, a folder or a device during a call is refused or read in its old state. No call waits for
// it.
func TestFilesThatTurnIntoSomethingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.from.KnowsFiles = true
	path := b.write("f", "a\n")
	spare := filepath.Join(b.root, "spare")
	turn := 0
	change := func() error {
		turn++
		var err error
		switch turn % 3 {
		case 0:
			err = unix.Mkfifo(spare, 0o644)
		case 1:
			err = os.WriteFile(spare, []byte("a\n"), 0o644)
		case 2:
			err = os.Symlink("/dev/zero", spare)
		}
		return errors.Join(err, os.Rename(spare, path))
	}
	during(t, change, func() {
		for range 300 {
			for name, params := range map[string]in{
				"file.read": {"path": "f"}, "file.write": {"path": "f", "content": "a\n"},
				"edit.text":  {"path": "f", "old_string": "a", "new_string": "b"},
				"edit.patch": envelope("*** Update File: f\n-a\n+b\n*** Add File: other\n+x\n"),
				"file.list":  {"path": "f"},
			} {
				if _, err := b.do(t.Context(), name, params); err != nil {
					t.Fatal(err)
				}
			}
			os.Remove(filepath.Join(b.root, "other"))
		}
	})
	if left, _ := filepath.Glob(filepath.Join(b.root, ".kaged-*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// The read of a file that grows all the time ends. The file can be edited only in the state that was read.
func TestFilesThatChangeWhileRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.write("log", strings.Repeat("0 line\n", 10_000))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	more := bytes.Repeat([]byte("1 more\n"), 1000)
	grow := func() error {
		_, err := f.Write(more)
		if info, _ := f.Stat(); info.Size() > 8<<20 {
			err = errors.Join(err, f.Truncate(70_000))
		}
		return err
	}
	during(t, grow, func() {
		for range 50 {
			var r readResult
			b.ok("file.read", in{"path": "log"}, &r)
			o, err := b.do(t.Context(), "edit.text", in{
				"path": "log", "old_string": "0 line\n", "new_string": "taken\n", "replace_all": true,
			})
			if err != nil || o.Fault != nil && o.Fault.Code != fault.FileChangedSinceRead {
				t.Fatalf("%v %v", err, o.Fault)
			}
			if o.Fault == nil {
				return // the edit came first; later appends go to the replaced file
			}
		}
	})
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte("0 line\n")) && !bytes.HasPrefix(data, []byte("taken\n")) {
		t.Errorf("%.20q, %v", data, err)
	}
}

// Names with line breaks, quotes and control characters are read, listed, changed and moved like others. Names that are
// not UTF-8 are listed and have no bad effect.
func TestOddNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"new\nline", "tab\t", "quote\"'", "-rf", " space ", "*?[a]", "ünï", "\u202eltr", "..."} {
		b.write("d/"+name, "a\n")
		b.read("d/" + name)
		b.ok("edit.text", in{"path": "d/" + name, "old_string": "a", "new_string": "b"}, nil)
		b.ok("file.write", in{"path": "d/" + name, "content": "c\n"}, nil)
		if got := b.content("d/" + name); got != "c\n" {
			t.Errorf("%q holds %q", name, got)
		}
	}
	if err := os.WriteFile(filepath.Join(b.root, "d/\xff\xfe"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	var list struct{ Entries []struct{ Name string } }
	o := b.ok("file.list", in{"path": "d"}, &list)
	if len(list.Entries) != 10 || !json.Valid([]byte(o.Result.Content)) {
		t.Errorf("listed %+v", list)
	}
	var r readResult
	if b.ok("file.read", in{"path": "d"}, &r); strings.Count(r.Content, "\n") != 9 {
		t.Errorf("listed %q", r.Content)
	}
	b.fails(fault.FileNotFound, "file.read", in{"path": "d/\uFFFD\uFFFD"})
	b.ok("edit.patch", envelope("*** Update File: d/ünï\n*** Move to: d/-x\n-c\n+d\n", "*** Delete File: d/*?[a]\n"), nil)
	if b.content("d/-x") != "d\n" || b.content("d/*?[a]") != "(none)" {
		t.Errorf("left %v", b.files())
	}
}

// An overwrite keeps the properties that new content does not express: the encoding, the byte order mark, the mode, the
// other names, and the line ends if all were \r\n (issue 3: they survive every edit).
func TestWriteKeepsTheFilesForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	utf := func(text string) string {
		var out []byte
		for _, u := range append([]uint16{0xFEFF}, utf16.Encode([]rune(text))...) {
			out = append(out, byte(u), byte(u>>8))
		}
		return string(out)
	}
	for name, c := range map[string]struct{ before, content, after string }{
		"plain":          {"a\nb\n", "x\ny", "x\ny"},
		"crlf":           {"a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n"},
		"crlf, said":     {"a\r\nb\r\n", "x\r\ny\n", "x\r\ny\n"},
		"mixed":          {"a\r\nb\n", "x\ny\n", "x\ny\n"},
		"bom":            {"\xef\xbb\xbfa\n", "x\n", "\xef\xbb\xbfx\n"},
		"bom, said":      {"\xef\xbb\xbfa\n", "\uFEFFx\n", "\xef\xbb\xbfx\n"},
		"utf-16":         {utf("ä\r\n"), "ü\n", utf("ü\r\n")},
		"binary":         {"\x00\r\n", "x\n", "x\n"},
		"not utf-8":      {"caf\xe9\n", "café\n", "café\n"},
		"to nothing":     {"a\n", "", ""},
		"empty":          {"", "x\n", "x\n"},
		"no line breaks": {"a", "x\ny\n", "x\ny\n"},
	} {
		path := b.write("f", c.before)
		if err := errors.Join(os.Chmod(path, 0o750|fs.ModeSetuid), os.Link(path, path+"2")); err != nil {
			t.Fatal(err)
		}
		b.read("f")
		var r writeResult
		b.ok("file.write", in{"path": "f", "content": c.content}, &r)
		info, err := os.Stat(path + "2")
		if b.content("f") != c.after || b.content("f2") != c.after || r.BytesWritten != len(c.after) || err != nil ||
			info.Mode() != 0o750|fs.ModeSetuid {
			t.Errorf("%s: %q, and %q under the other name; %+v, %v", name, b.content("f"), b.content("f2"), r, info.Mode())
		}
		if err := os.Remove(path + "2"); err != nil {
			t.Fatal(err)
		}
	}
}

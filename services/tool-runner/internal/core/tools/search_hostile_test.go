package tools_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/fault"
)

// A search succeeds in a tree with links, pipes, sockets, devices, unreadable files and unusual names, and follows no
// link.
func TestSearchInAHostileTree(t *testing.T) {
	t.Parallel()
	b := searchProject(t)
	for _, l := range [][2]string{
		{".", "src/self"},
		{"..", "src/up"},
		{"/etc", "etc"},
		{"/etc/passwd", "passwd"},
		{"gone", "dangling"},
		{"loop2", "loop"},
		{"loop", "loop2"},
	} {
		b.link(l[0], l[1])
	}
	for _, name := range []string{"pipe", "docs/.gitignore", "out/.git"} {
		if err := unix.Mkfifo(filepath.Join(b.root, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(b.root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// Only root may create a device. A read from this one, the terminal, would block.
	if err := unix.Mknod(filepath.Join(b.root, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(5, 0))); err != nil &&
		os.Getuid() == 0 {
		t.Logf("no device was made: %v", err)
	}
	b.write("new\nline", "TODO odd\n")
	b.write("\xff\xfe", "TODO odd\n")
	closed := filepath.Join(b.root, "closed")
	b.write("closed/x", "TODO odd\n")
	b.write("secret", "TODO odd\n")
	for _, path := range []string{closed, filepath.Join(b.root, "secret")} {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(path, 0o755)
	}
	var r grepResult
	b.ok("search.grep", in{"pattern": "root:|TODO odd"}, &r)
	got := files(r)
	if os.Getuid() == 0 { // root may read everything
		got = slices.DeleteFunc(got, func(f string) bool { return f == "./closed/x" || f == "./secret" })
	}
	if want := []string{"./new\nline", "./\uFFFD\uFFFD"}; !slices.Equal(got, want) {
		t.Errorf("found %q", got)
	}
	var g globResult
	b.ok("search.glob", in{"pattern": "**"}, &g)
	for _, odd := range []string{"./pipe", "./socket", "./device", "./passwd", "./loop", "./dangling"} {
		if slices.Contains(g.Files, odd) {
			t.Errorf("%s is among the files", odd)
		}
	}
	for _, path := range []string{"pipe", "socket"} {
		b.fails(fault.FileNotRegular, "search.grep", in{"pattern": "x", "path": path})
	}
	for _, path := range []string{"etc", "passwd", "loop"} {
		b.fails(fault.InvalidParams, "search.grep", in{"pattern": "x", "path": path})
	}
}

// A tree deeper than the maximum path length is searched as far as paths allow.
func TestSearchInADeepTree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name := strings.Repeat("d", 100)
	at, err := unix.Open(b.root, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for depth := range 60 {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
		fd, err := unix.Openat(at, fmt.Sprintf("f%02d", depth), unix.O_CREAT|unix.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, []byte("needle\n")); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	unix.Close(at)
	var r grepResult
	b.ok("search.grep", in{"pattern": "needle"}, &r)
	// A path of 4096 bytes has at most 40 such folders.
	if len(r.Matches) < 38 || len(r.Matches) > 41 {
		t.Errorf("%d files were found", len(r.Matches))
	}
	var g globResult
	if b.ok("search.glob", in{"pattern": "**/f0*"}, &g); g.Count != 10 {
		t.Errorf("%d files were found", g.Count)
	}
}

// If files grow, shrink, disappear and change places during a search, the search misses at most the matches in those
// files.
func TestSearchWhileFilesChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 50 {
		b.write(fmt.Sprintf("still/%02d", i), "needle\n")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		moving, text := filepath.Join(b.root, "moving"), bytes.Repeat([]byte("some needle\n"), 40_000)
		for i := 0; ctx.Err() == nil; i++ {
			dir := filepath.Join(moving, fmt.Sprint(i%3))
			file := filepath.Join(dir, "f")
			_ = os.MkdirAll(dir, 0o755)
			_ = os.WriteFile(file, text, 0o644)
			_ = os.Truncate(file, int64(i%5)*1000)
			_ = os.Rename(file, filepath.Join(moving, "g"))
			_ = os.Remove(dir)
			_ = os.Symlink("/etc", dir)
			_ = os.Remove(dir)
		}
	}()
	for range 30 {
		var r grepResult
		b.ok("search.grep", in{"pattern": "needle|root:"}, &r)
		still := 0
		for _, f := range files(r) {
			switch {
			case strings.HasPrefix(f, "./still/"):
				still++
			case !strings.HasPrefix(f, "./moving/"):
				t.Errorf("found %s", f)
			}
		}
		if still != 50 {
			t.Errorf("%d files of those that do not change were found", still)
		}
		b.ok("search.glob", in{"pattern": "**"}, nil)
	}
	stop()
	<-ended
}

// A search with far too many matches keeps in memory only those that can be part of its answer.
func TestSearchKeepsLittle(t *testing.T) {
	b := newBench(t)
	line := strings.Repeat("wide ", 200) + "needle\n"
	for i := range 100 {
		b.write(fmt.Sprintf("d%d/%03d", i%10, i), strings.Repeat(line, 500)) // 50 MB in total
	}
	b.ok("search.grep", in{"pattern": "needle", "output_mode": "content"}, nil) // fills the caches that later searches use
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var r grepResult
	b.ok("search.grep", in{"pattern": "needle", "output_mode": "content"}, &r)
	runtime.ReadMemStats(&after)
	if r.TotalMatches != 50_000 || !r.Truncated {
		t.Errorf("%d matches, truncated %v", r.TotalMatches, r.Truncated)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d MB were allocated to find 50 MB of lines", allocated>>20)
	}
}

// A search that runs out of time inside a file soon returns the matches found until then (T-SEARCH-GREP-06, T-FM-09,
// P3).
func TestSearchTimesOutInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(b *bench) { b.limits.Search.Timeout, b.limits.Search.Workers = 300*time.Millisecond, 1 })
	b.write("a", "aab needle\n")
	// An expression with ever more states, on a text for which it would need minutes.
	b.write("z/noise", string(noise(20_000_000)))
	var r grepResult
	b.ok("search.grep", in{"pattern": `needle|(?:[ab]*a[ab]{450}){2}c`, "output_mode": "content"}, &r)
	if !r.Truncated || len(r.flat()) != 1 || r.flat()[0] != "./a:1:aab needle" {
		t.Errorf("truncated %v, found %q", r.Truncated, r.flat())
	}
}

// noise returns n random letters a and b in lines, without a repeating pattern.
func noise(n int) []byte {
	text, state := make([]byte, n), uint32(1)
	for i := range text {
		state = state*1664525 + 1013904223
		if text[i] = "ab"[state>>31]; i%1000 == 999 {
			text[i] = '\n'
		}
	}
	return text
}

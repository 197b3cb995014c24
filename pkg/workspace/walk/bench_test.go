package walk_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/search"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/walk"
)

// descriptor reads an open file.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	n, err := unix.Read(int(d), p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Searching Go's own sources, by kind of pattern.
func BenchmarkSearch(b *testing.B) {
	out, err := exec.CommandContext(b.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	space, start := open(b, filepath.Join(strings.TrimSpace(string(out)), "src"), paths.Rules{})
	for name, pattern := range map[string]string{
		"literal": "ReadAtLeast", "literal inside": `func \w+Error\(`, "either case": `(?i)todo\(\w+\)`,
		"words":    `\b[A-Z]{3,}_[A-Z]+\b`,
		"line end": `return .*, (err|nil)$`, "alternation": "TODO|FIXME|XXX", "run": `\w+\s+\d{5,}`, "nothing": "zzzzqqq",
	} {
		b.Run(name, func(b *testing.B) {
			p, err := search.Compile(pattern)
			if err != nil {
				b.Fatal(err)
			}
			var lines, files atomic.Int64
			for b.Loop() {
				lines.Store(0)
				files.Store(0)
				err := walk.Files(
					b.Context(),
					start,
					options(space, start, os.LookupEnv),
					func(ctx context.Context, f *walk.Folder, names []string) {
						for _, name := range names {
							files.Add(1)
							fd, err := f.Open(name)
							if err != nil {
								continue
							}
							_ = p.Scan(ctx, descriptor(fd), func(int, []byte, int) bool { lines.Add(1); return true })
							unix.Close(fd)
						}
					},
				)
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(lines.Load()), "lines")
			b.ReportMetric(float64(files.Load()), "files")
		})
	}
}

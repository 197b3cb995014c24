package walk_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/services/tool-runner/internal/core/ignore"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/search"
	"kaged.dev/services/tool-runner/internal/core/walk"
)

type fd int

func (f fd) Read(p []byte) (int, error) {
	n, err := unix.Read(int(f), p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func BenchmarkSearch(b *testing.B) {
	root := filepath.Join(runtime.GOROOT(), "src")
	for _, pattern := range []string{"ReadAtLeast", `func \w+Error\(`, `(?i)todo\(\w+\)`, `\b[A-Z]{3,}_[A-Z]+\b`, `return .*, (err|nil)$`, "TODO|FIXME|XXX", `\w+\s+\d{5,}`, "zzzzqqq"} {
		b.Run(pattern, func(b *testing.B) {
			p, err := search.Compile(pattern)
			if err != nil {
				b.Fatal(err)
			}
			var total, files atomic.Int64
			for b.Loop() {
				total.Store(0)
				files.Store(0)
				space, err := paths.Open(root, paths.Rules{})
				if err != nil {
					b.Fatal(err)
				}
				start, _ := space.Resolve("path", ".")
				opts := walk.Options{Workers: 2, Rules: ignore.Start(root, space.Root(), ignore.LoadUser(os.LookupEnv)), Space: space}
				err = walk.Files(context.Background(), start, opts, func(ctx context.Context, f *walk.Folder, names []string) {
					for _, n := range names {
						files.Add(1)
						h, err := f.Open(n)
						if err != nil {
							continue
						}
						p.Scan(ctx, fd(h), func(int, []byte) bool { total.Add(1); return true })
						unix.Close(h)
					}
				})
				space.Close()
			}
			b.ReportMetric(float64(total.Load()), "lines")
			b.ReportMetric(float64(files.Load()), "files")
		})
	}
}

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The sizes of the created trees.
const (
	smallFiles = 20_000
	hugeBytes  = 256 << 20
)

// sources returns a copy of Go's own sources, as a repository with a .gitignore: a real tree of some 11,000 files.
func (w *world) sources(ctx context.Context) (string, error) {
	dir := filepath.Join(w.dir, "sources")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	from := filepath.Join(strings.TrimSpace(string(out)), "src")
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return "", err
	}
	if err := copyTree(from, dir); err != nil {
		return "", err
	}
	return dir, repository(ctx, dir, "*.out\n/cmd/vendor/\n!/cmd/vendor/golang.org\nbuild/\n")
}

// copyTree copies the regular files below from.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, rel); {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case e.Type().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, content, 0o644)
		}
		return nil
	})
}

// repository makes dir a repository with ignored paths.
func repository(ctx context.Context, dir, ignore string) error {
	if out, err := exec.CommandContext(ctx, "git", "init", "-q", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("git init: %w: %s", err, out)
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(ignore), 0o644)
}

// small returns a tree of many small files; one in ten of them is ignored.
func (w *world) small(ctx context.Context) (string, error) {
	dir := filepath.Join(w.dir, "small")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range smallFiles {
		folder := filepath.Join(dir, fmt.Sprintf("p%02d/q%02d", i%40, i/40%20))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
		name := filepath.Join(folder, fmt.Sprintf("f%05d.%s", i, []string{
			"ts", "ts", "tsx", "json", "md", "css", "ts", "go", "py", "tmp",
		}[i%10]))
		if err := os.WriteFile(name, prose(random, 200+random.IntN(1500)), 0o644); err != nil {
			return "", err
		}
	}
	return dir, repository(ctx, dir, "*.tmp\n")
}

// huge returns a tree of one huge file.
func (w *world) huge() (string, error) {
	dir := filepath.Join(w.dir, "huge")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.Create(filepath.Join(dir, "huge.log"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	random := rand.New(rand.NewPCG(2, 2))
	for written := 0; written < hugeBytes; {
		text := prose(random, 1<<20)
		n, err := io.Copy(f, bytes.NewReader(bytes.Repeat(text, 8)))
		if err != nil {
			return "", err
		}
		written += int(n)
	}
	return dir, f.Close()
}

var words = strings.Fields(`the of to and in is for this that with return value error file request server session handler
	context buffer index count offset length result message TODO FIXME Reader Writer NewClient parseHeader read_at_least
	timeout deadline cancel ERROR WARN 10234 404 0x7f user_id tenant connection refused closed unexpected`)

// prose returns n bytes of lines of words.
func prose(random *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		for range 3 + random.IntN(12) {
			b.WriteString(words[random.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

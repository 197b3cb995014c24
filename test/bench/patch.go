package bench

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patchRounds is the number of times that each applies a patch or reverts it.
const patchRounds = 120

// patchCase is a set of changes that edit.patch and GNU patch make.
type patchCase struct {
	name string
	// before and after are the files by their paths; a file of one of them alone is deleted or added.
	before, after map[string]string
}

// measurePatch compares edit.patch with GNU patch.
func measurePatch(ctx context.Context, w *world) ([]Figure, error) {
	gnu := w.findPeer(ctx, "GNU patch", "patch")
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		var figures []Figure
		for _, c := range patchCases() {
			got, err := r.holdPatch(ctx, w, c, gnu)
			if err != nil {
				return figures, fmt.Errorf("patch/%s: %w", c.name, err)
			}
			figures = append(figures, got...)
		}
		return figures, nil
	})
}

func patchCases() []patchCase {
	one := patchCase{
		"one-hunk", map[string]string{"src/f.go": source(0, 300, 0)}, map[string]string{"src/f.go": source(0, 300, 299)},
	}
	long := patchCase{
		"long-file-100-hunks",
		map[string]string{"src/f.go": source(0, 30_000, 0)},
		map[string]string{"src/f.go": source(0, 30_000, 300)},
	}
	many := patchCase{"fifty-files", map[string]string{}, map[string]string{}}
	mixed := patchCase{"add-edit-delete", map[string]string{}, map[string]string{}}
	for i := range 50 {
		name := fmt.Sprintf("src/d%d/f%d.go", i%5, i)
		many.before[name], many.after[name] = source(i, 400, 0), source(i, 400, 130)
		switch i % 10 {
		case 0:
			mixed.before[name] = source(i, 100, 0)
		case 1:
			mixed.after[name] = source(i, 100, 0)
		case 2:
			mixed.before[name], mixed.after[name] = source(i, 100, 0), source(i, 100, 90)
		}
	}
	return []patchCase{one, long, many, mixed}
}

// source returns a text with the number of lines, of which every n-th is changed.
func source(file, lines, n int) string {
	var b strings.Builder
	for i := range lines {
		mark := ""
		if n > 0 && i%n == n-1 {
			mark = " // changed"
		}
		fmt.Fprintf(&b, "\tline%d_%d := compute(%d, %q)%s\n", file, i, i*7, "some text", mark)
	}
	return b.String()
}

// hunks returns each changed line with three lines around it, in the form of both formats.
func hunks(before, after string, numbers bool) string {
	old, new := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	var b strings.Builder
	for i := range old {
		if old[i] == new[i] {
			continue
		}
		from, to := max(0, i-3), min(len(old)-1, i+4)
		if numbers {
			fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
		} else {
			b.WriteString("@@\n")
		}
		for _, line := range old[from:i] {
			b.WriteString(" " + line)
		}
		b.WriteString("-" + old[i] + "+" + new[i])
		for _, line := range old[i+1 : to] {
			b.WriteString(" " + line)
		}
	}
	return b.String()
}

// signed returns every line of a text with a sign before it.
func signed(sign, text string) string {
	return sign + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+sign) + "\n"
}

// envelopeOf and unifiedOf write the patch from one tree to another.
func envelopeOf(before, after map[string]string) string {
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	for _, name := range allNames(before, after) {
		old, was := before[name]
		new, is := after[name]
		switch {
		case !is:
			b.WriteString("*** Delete File: " + name + "\n")
		case !was:
			b.WriteString("*** Add File: " + name + "\n" + signed("+", new))
		default:
			b.WriteString("*** Update File: " + name + "\n" + hunks(old, new, false))
		}
	}
	return b.String() + "*** End Patch\n"
}

func unifiedOf(before, after map[string]string) string {
	var b strings.Builder
	for _, name := range allNames(before, after) {
		old, was := before[name]
		new, is := after[name]
		switch {
		case !is:
			fmt.Fprintf(&b, "--- a/%s\n+++ /dev/null\n@@ -1,%d +0,0 @@\n%s", name, strings.Count(old, "\n"), signed("-", old))
		case !was:
			fmt.Fprintf(&b, "--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n%s", name, strings.Count(new, "\n"), signed("+", new))
		default:
			fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n%s", name, name, hunks(old, new, true))
		}
	}
	return b.String()
}

func allNames(trees ...map[string]string) []string {
	names := map[string]bool{}
	for _, tree := range trees {
		for name := range tree {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// holdPatch lets edit.patch and the peer apply a patch and revert it by turns on one tree, and compares the tree after
// each. On two trees the times would differ by where the file system has put them: ext4 without a journal, for example,
// looks at each file that was deleted in the same group of blocks in the last minutes before it makes a new one.
// A round pairs one direction with the other, so both must cost the same.
func (r *runner) holdPatch(ctx context.Context, w *world, c patchCase, gnu peer) ([]Figure, error) {
	dir := filepath.Join(w.dir, "patch", c.name)
	t := patchTree{
		root: filepath.Join(dir, "tree"), trees: [2]map[string]string{c.before, c.after},
		texts: [2]string{envelopeOf(c.before, c.after), envelopeOf(c.after, c.before)},
		files: [2]string{filepath.Join(dir, "forth.patch"), filepath.Join(dir, "back.patch")},
	}
	for name, content := range c.before {
		if err := writeFile(filepath.Join(t.root, name), content); err != nil {
			return nil, err
		}
	}
	if err := writeFile(t.files[0], unifiedOf(c.before, c.after)); err != nil {
		return nil, err
	}
	if err := writeFile(t.files[1], unifiedOf(c.after, c.before)); err != nil {
		return nil, err
	}
	var ourCPU, peerCPU time.Duration
	measures := []func() (time.Duration, error){func() (time.Duration, error) {
		took, cpu, err := r.patch(ctx, "patch-"+c.name, &t)
		ourCPU += cpu
		return took, err
	}}
	if gnu.path == "" {
		fmt.Fprintf(w.progress, "bench: patch/%s: %s\n", c.name, gnu.missing())
	} else {
		measures = append(measures, func() (time.Duration, error) {
			got, err := gnu.run(ctx, t.root, "--strip=1", "--silent", "--no-backup-if-mismatch", "--input="+t.files[t.at])
			peerCPU += got.cpu
			return got.wall, cmp.Or(err, t.patched(gnu.title))
		})
	}
	took, err := shuffled(patchRounds, measures...)
	if err != nil {
		return nil, err
	}
	return gnu.against("patch/"+c.name, took, ourCPU, peerCPU), nil
}

// patchTree is a tree in one of two states.
type patchTree struct {
	root  string
	at    int                  // the present state
	trees [2]map[string]string // the files of each state by their paths
	// texts and files hold the patch that leads from each state to the other, for edit.patch and for the peer.
	texts, files [2]string
}

// patched is called after an application. It fails if the tree is not in the other state.
func (t *patchTree) patched(by string) error {
	t.at = 1 - t.at
	if err := holds(t.root, t.trees[t.at]); err != nil {
		return fmt.Errorf("%s: %w", by, err)
	}
	return nil
}

// patch lets a session that has read the files of a tree apply edit.patch to it. It returns the wall time and the CPU
// time.
func (r *runner) patch(ctx context.Context, session string, t *patchTree) (took, cpu time.Duration, err error) {
	for name := range t.trees[t.at] {
		if _, err := r.call(ctx, session, t.root, "file.read", map[string]any{"path": name, "limit": 1}); err != nil {
			return 0, 0, err
		}
	}
	before, err := r.cpu()
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if _, err := r.call(ctx, session, t.root, "edit.patch", map[string]string{"patch": t.texts[t.at]}); err != nil {
		return 0, 0, err
	}
	took = time.Since(begun)
	after, err := r.cpu()
	if err != nil {
		return 0, 0, err
	}
	return took, after - before, t.patched("edit.patch")
}

func writeFile(name, content string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}

// holds reports the differences between a tree and the wanted one; empty folders do not count.
func holds(root string, want map[string]string) error {
	found := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if content, ok := want[name]; !ok || content != string(data) {
			return fmt.Errorf("%s is not what it is to be", path)
		}
		found++
		return nil
	})
	if err == nil && found != len(want) {
		err = fmt.Errorf("%s holds %d files, and %d are wanted", root, found, len(want))
	}
	return err
}

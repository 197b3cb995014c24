package tools_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"kaged.dev/pkg/dsl"
)

// gitFiles returns the files of the project that git does not ignore, with the names that results use.
func (b *bench) gitFiles() []string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", "ls-files", "-coz", "--exclude-standard", "--deduplicate")
	cmd.Dir, cmd.Env = b.root, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.env["HOME"], "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	var files []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" {
			files = append(files, "./"+name)
		}
	}
	slices.Sort(files)
	return files
}

// randomTree replaces the project's files: text in several encodings, binary files, empty files, files that nested and
// negated rules ignore.
func (b *bench) randomTree(t *rapid.T) map[string]string {
	b.t.Helper()
	entries, err := os.ReadDir(b.root)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			if err := os.RemoveAll(filepath.Join(b.root, e.Name())); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	word := rapid.SampledFrom([]string{
		"alpha", "Beta", "gamma_DELTA", "x", "foo()", "bar = 12345", "TODO(ann)", "é", "\u212A", "\t", "\r", "\n", "\n",
		"\r\n", "\xff",
	})
	text := rapid.Custom(func(t *rapid.T) string {
		body := strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "words"), " ")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return "\x00" + body
		case 1:
			return "\uFEFF" + body
		}
		return body
	})
	part := rapid.SampledFrom([]string{"a", "b", "out", "B", ".h"})
	name := rapid.Custom(func(t *rapid.T) string {
		folders := rapid.SliceOfN(part, 0, 3).Draw(t, "folders")
		return path.Join(append(folders, rapid.SampledFrom([]string{"f.go", "g.ts", "a.log", "b", "h.go", "i \n.ts"}).
			Draw(t, "file"))...)
	})
	files := rapid.MapOfN(name, text, 0, 25).Draw(t, "files")
	rules := rapid.SliceOfN(rapid.SampledFrom([]string{
		"*.log", "!a.log", "out/", "/a/b", "!out", "*.ts", "**/h.go", "B/*", "!B/f.go",
	}), 0, 3)
	for _, folder := range []string{"", "a/", "a/out/"} {
		if lines := rules.Draw(t, "rules in "+folder); len(lines) > 0 {
			files[folder+".gitignore"] = strings.Join(lines, "\n")
		}
	}
	written := map[string]string{}
	at := time.Now()
	for i, name := range slices.Sorted(maps.Keys(files)) {
		full := filepath.Join(b.root, name)
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil || os.WriteFile(full, []byte(files[name]), 0o644) != nil {
			continue // the folder's path is occupied by a file
		}
		changed := at.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, fmt.Sprint("age", i))) * time.Second)
		if err := os.Chtimes(full, changed, changed); err != nil {
			b.t.Fatal(err)
		}
		written["./"+name] = files[name]
	}
	return written
}

// inGit returns a bench with a repository as its project.
func inGit(t testing.TB) *bench {
	b := newBench(t)
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", b.root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return b
}

// On any tree a search returns the same matches as reading every file that git does not ignore, line by line. This
// holds in every mode, with and without a limit, and the order is always the same (T-SEARCH-GREP-01..05, -08, -09).
func TestGrepEqualsNaiveOnRandomTrees(t *testing.T) {
	t.Parallel()
	b := inGit(t)
	patterns := []string{
		"alpha", "(?i)beta", "alpha|TODO", `\w+_[A-Z]+`, `\d{4,}`, "^$", "x $", "é", `o\(\)`, ".", "zzz", `^\s*x`, `\bx\b`,
		"(?i)k", `a\s*$`, `[^a-z]+ x`, "",
	}
	rapid.Check(t, func(rt *rapid.T) {
		files := b.randomTree(rt)
		pattern := rapid.SampledFrom(patterns).Draw(rt, "pattern")
		head := rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "head_limit")
		re := regexp.MustCompile(pattern)
		var lines, names, counts []string
		total := 0
		for _, name := range b.gitFiles() {
			content := files[name]
			if strings.Contains(content, "\x00") || content == "" {
				continue
			}
			n := 0
			for i, line := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(content, "\uFEFF"), "\n"), "\n") {
				bare := strings.TrimSuffix(line, "\r")
				if content != "\uFEFF" && (re.MatchString(line) || re.MatchString(bare)) {
					n++
					lines = append(lines, fmt.Sprintf("%s:%d:%s", name, i+1, strings.ToValidUTF8(bare, "\uFFFD")))
				}
			}
			if total += n; n > 0 {
				names, counts = append(names, name), append(counts, fmt.Sprintf("%s#%d", name, n))
			}
		}
		for mode, want := range map[string][]string{"content": lines, "files_with_matches": names, "count": counts} {
			params := in{"pattern": pattern, "output_mode": mode}
			all, wantTotal := len(want), total
			if mode == "files_with_matches" {
				wantTotal = len(names)
			}
			if head > 0 {
				params["head_limit"] = head
				want = want[:min(head, len(want))]
			}
			var r grepResult
			o := b.ok("search.grep", params, &r)
			if d := cmp.Diff(want, r.flat()); d != "" || r.TotalMatches != wantTotal || r.Truncated != (len(want) < all) {
				rt.Fatalf("%q, %s: total %d of %d, truncated %v (- naive, + grep):\n%s", pattern, mode, r.TotalMatches, wantTotal,
					r.Truncated, d)
			}
			if again := b.ok("search.grep", params, nil); again.Result != o.Result {
				rt.Fatal("two searches differ")
			}
		}
	})
}

// On any tree a glob returns those files that a naive matcher accepts and git does not ignore, the most recently
// changed first, files with the same time by path (T-SEARCH-GLOB-01, -04, -05).
func TestGlobEqualsNaiveOnRandomTrees(t *testing.T) {
	t.Parallel()
	b := inGit(t)
	patterns := []string{
		"*", "**", "**/*", "*.go", "**/*.go", "a/**", "**/a/*", "a/*/f.go", "{a,b}/**/*.{go,ts}", "**/[a-g].*", "**/?", "*/*",
		"out/**/b", ".h/*", "**/.gitignore", "**/[!f]*.go",
	}
	rapid.Check(t, func(rt *rapid.T) {
		b.randomTree(rt)
		pattern := rapid.SampledFrom(patterns).Draw(rt, "pattern")
		type aged struct {
			name string
			at   time.Time
		}
		var want []aged
		for _, name := range b.gitFiles() {
			if !slices.ContainsFunc(braces(pattern), func(p string) bool {
				return globs(strings.Split(p, "/"), strings.Split(strings.TrimPrefix(name, "./"), "/"))
			}) {
				continue
			}
			info, err := os.Lstat(filepath.Join(b.root, name))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, aged{name, info.ModTime()})
		}
		slices.SortStableFunc(want, func(x, y aged) int { return y.at.Compare(x.at) })
		names := []string{}
		for _, f := range want {
			names = append(names, f.name)
		}
		var r globResult
		b.ok("search.glob", in{"pattern": pattern}, &r)
		if d := cmp.Diff(names, r.Files); d != "" || r.Count != len(names) || r.Truncated {
			rt.Fatalf("%s (- naive, + glob), %+v:\n%s", pattern, r, d)
		}
	})
}

// braces returns the patterns that a pattern with {a,b} expands to.
func braces(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	if open < 0 {
		return []string{pattern}
	}
	inside, rest, _ := strings.Cut(pattern[open+1:], "}")
	var all []string
	for choice := range strings.SplitSeq(inside, ",") {
		all = append(all, braces(pattern[:open]+choice+rest)...)
	}
	return all
}

// globs matches component by component, and tries every number of components for **.
func globs(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		for skip := range len(name) + 1 {
			if globs(pattern[1:], name[skip:]) {
				return true
			}
		}
		return false
	case len(name) == 0:
		return false
	}
	ok, _ := path.Match(strings.ReplaceAll(pattern[0], "[!", "[^"), name[0])
	return ok && globs(pattern[1:], name[1:])
}

// With any grants of a cage, a search of the project returns text only from files in the cage. Of every other match it
// returns the position if the pattern is a whole word, else nothing: a part of a word, or an expression, would let an
// agent guess the file's text bit by bit. It also returns nothing if the operator hides such matches (T-SEARCH-GREP-10,
// T-PERM-FILTER-01, -02, C14, P15).
func TestGrepNeverQuotesOutsideTheCage(t *testing.T) {
	t.Parallel()
	b := inGit(t)
	hiding := newBench(t, func(h *bench) { h.limits.Search.HideOutside = true })
	hiding.root, hiding.from.Root = b.root, b.root
	mounts := []string{"a", "a/b", "b", "out", "a/out", ".h", "f.go", "b/f.go", "B"}
	rapid.Check(t, func(rt *rapid.T) {
		b.randomTree(rt)
		var uncaged grepResult
		b.from.Agent, b.from.Cage = "primary", nil
		pattern := rapid.SampledFrom([]string{"alpha", "(?i)ALPHA", "alph", "alpha?", ".", "^alpha"}).Draw(rt, "pattern")
		word := strings.EqualFold(strings.TrimPrefix(pattern, "(?i)"), "alpha")
		b.ok("search.grep", in{"pattern": pattern, "output_mode": "content"}, &uncaged)
		policy := &dsl.Cage{}
		for _, m := range rapid.SliceOfN(rapid.SampledFrom(mounts), 1, 3).Draw(rt, "mounts") {
			if _, err := os.Lstat(filepath.Join(b.root, m)); err == nil {
				policy.FS = append(policy.FS, dsl.Mount{Mode: "ro", Path: "./" + m})
			}
		}
		if len(policy.FS) == 0 {
			return // the cage grants no path, and the search is denied
		}
		granted := func(file string) bool {
			return slices.ContainsFunc(policy.FS, func(m dsl.Mount) bool {
				return file == m.Path || strings.HasPrefix(file, m.Path+"/")
			})
		}
		var want, inside []string
		for _, m := range uncaged.Matches {
			place := fmt.Sprintf("%s:%d", m.File, m.Line)
			if !granted(m.File) {
				if word {
					want = append(want, place+" outside")
				}
				continue
			}
			want, inside = append(want, place+":"+*m.Content), append(inside, place+":"+*m.Content)
		}
		for _, c := range []struct {
			bench *bench
			want  []string
		}{{b, want}, {hiding, inside}} {
			c.bench.from.Agent, c.bench.from.Cage = "primary.subagents.x", policy
			var r grepResult
			c.bench.ok("search.grep", in{"pattern": pattern, "output_mode": "content"}, &r)
			if d := cmp.Diff(c.want, r.flat()); d != "" || r.TotalMatches != len(c.want) {
				rt.Fatalf("%+v, total %d:\n%s", policy.FS, r.TotalMatches, d)
			}
			for _, mode := range []string{"files_with_matches", "count"} {
				var r grepResult
				c.bench.ok("search.grep", in{"pattern": pattern, "output_mode": mode}, &r)
				for _, m := range r.Matches {
					if m.OutsideCage && !word {
						rt.Fatalf("%s of %s: %+v", mode, pattern, m)
					}
					if m.Content != nil || m.OutsideCage == granted(m.File) {
						rt.Fatalf("%s: %+v", mode, m)
					}
				}
			}
		}
	})
}

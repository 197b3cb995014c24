package tools_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

type grepResult struct {
	Matches []struct {
		File        string
		Line        int
		Content     *string
		Count       int
		OutsideCage bool `json:"outside_cage"`
	}
	TotalMatches int `json:"total_matches"`
	Truncated    bool
}

// flat returns matches as file:line:content, with the parts that they have.
func (r grepResult) flat() []string {
	var list []string
	for _, m := range r.Matches {
		s := m.File
		if m.Line > 0 {
			s += fmt.Sprint(":", m.Line)
		}
		if m.Content != nil {
			s += ":" + *m.Content
		}
		if m.Count > 0 {
			s += fmt.Sprint("#", m.Count)
		}
		if m.OutsideCage {
			s += " outside"
		}
		list = append(list, s)
	}
	return list
}

// searchProject returns a bench with files to search.
func searchProject(t testing.TB, change ...func(*bench)) *bench {
	b := newBench(t, change...)
	for name, content := range map[string]string{
		"src/main.ts": "import x\n// TODO: one\n// FIXME: two\n", "src/b.tsx": "TODO\r\n", "src/c.js": "TODO\n",
		"src/deep/d.ts": "no\nTODO",
		"docs/e.md":     "todo\n", "ignored.log": "TODO\n", ".gitignore": "*.log\nout/\n", "out/f.ts": "TODO\n",
		"image.png":    "\x89PNG\x00TODO\n",
		".hidden/g.ts": "TODO hidden\n", ".git/config": "TODO\n", "src/.gitignore": "!keep.log\n",
		"src/keep.log": "TODO kept\n",
	} {
		b.write(name, content)
	}
	return b
}

// Each mode has its form of answer, and the counts add up to the total (T-SEARCH-GREP-01..03, TN-SEARCH-1).
func TestGrepModes(t *testing.T) {
	t.Parallel()
	b := searchProject(t)
	var r grepResult
	b.ok("search.grep", in{"pattern": "TODO|FIXME", "output_mode": "content", "path": "./src"}, &r)
	want := []string{
		"./src/b.tsx:1:TODO", "./src/c.js:1:TODO", "./src/deep/d.ts:2:TODO", "./src/keep.log:1:TODO kept",
		"./src/main.ts:2:// TODO: one", "./src/main.ts:3:// FIXME: two",
	}
	if d := cmp.Diff(want, r.flat()); d != "" || r.TotalMatches != 6 || r.Truncated {
		t.Errorf("%s (total %d)", d, r.TotalMatches)
	}
	r = grepResult{}
	b.ok("search.grep", in{"pattern": "TODO"}, &r)
	want = []string{"./.hidden/g.ts", "./src/b.tsx", "./src/c.js", "./src/deep/d.ts", "./src/keep.log", "./src/main.ts"}
	if d := cmp.Diff(want, r.flat()); d != "" || r.TotalMatches != 6 {
		t.Errorf("%s (total %d)", d, r.TotalMatches)
	}
	r = grepResult{}
	b.ok("search.grep", in{"pattern": "TODO|FIXME", "output_mode": "count", "include": "*.ts"}, &r)
	want = []string{"./.hidden/g.ts#1", "./src/deep/d.ts#1", "./src/main.ts#2"}
	if d := cmp.Diff(want, r.flat()); d != "" || r.TotalMatches != 4 {
		t.Errorf("%s (total %d)", d, r.TotalMatches)
	}
	r = grepResult{}
	if b.ok("search.grep", in{"pattern": "nothing like it"}, &r); r.Matches == nil || r.TotalMatches != 0 || r.Truncated {
		t.Errorf("no match: %+v", r)
	}
}

// The flat alias returns lines with their positions (T-T20-GREP-01).
func TestGrepAsTheFlatTool(t *testing.T) {
	t.Parallel()
	b := searchProject(t)
	var r grepResult
	b.ok("grep", in{"pattern": "todo", "path": "docs"}, &r)
	if d := cmp.Diff([]string{"./docs/e.md:1:todo"}, r.flat()); d != "" {
		t.Error(d)
	}
	b.fails(fault.InvalidParams, "grep", in{"pattern": "x", "output_mode": "count"})
}

// include selects files by name, or by path below the searched folder (T-SEARCH-GREP-04, TN-SEARCH-2).
func TestGrepInclude(t *testing.T) {
	t.Parallel()
	b := searchProject(t)
	for include, want := range map[string][]string{
		"*.ts": {"./src/deep/d.ts", "./src/main.ts"}, "*.{ts,tsx}": {"./src/b.tsx", "./src/deep/d.ts", "./src/main.ts"},
		"deep/*.ts": {"./src/deep/d.ts"},
		"./**/d.*":  {"./src/deep/d.ts"}, "main.ts": {"./src/main.ts"}, "src/*.ts": nil,
	} {
		var r grepResult
		b.ok("search.grep", in{"pattern": "TODO", "path": "src", "include": include}, &r)
		if d := cmp.Diff(want, r.flat()); d != "" {
			t.Errorf("%s: %s", include, d)
		}
	}
	for _, include := range []string{"[", "{a", strings.Repeat("{a,b}", 30), strings.Repeat("x", 2000)} {
		b.fails(fault.InvalidParams, "search.grep", in{"pattern": "x", "include": include})
	}
}

// A single file can be searched, even one that git ignores. A missing file is reported (T-SEARCH-GREP-09).
func TestGrepPaths(t *testing.T) {
	t.Parallel()
	b := searchProject(t)
	for path, want := range map[string][]string{"ignored.log": {"./ignored.log"}, "out": {"./out/f.ts"}, ".": nil} {
		var r grepResult
		b.ok("search.grep", in{"pattern": "^TODO$", "path": path}, &r)
		if want != nil && !slices.Equal(r.flat(), want) {
			t.Errorf("%s: %v", path, r.flat())
		}
	}
	b.fails(fault.FileNotFound, "search.grep", in{"pattern": "x", "path": "nope"})
	b.fails(fault.InvalidParams, "search.grep", in{"pattern": "x", "path": "../"})
	for _, pattern := range []string{"(", "(?=x)", `(a)\1`} {
		if f := b.fails(fault.InvalidParams, "search.grep", in{"pattern": pattern}); f.Details["field"] != "pattern" {
			t.Errorf("%s: %v", pattern, f.Details)
		}
	}
}

// The number of entries, the size of the answer and the length of a line are limited, and omissions are reported
// (T-SEARCH-GREP-05, -07).
func TestGrepIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("a", strings.Repeat("needle\n", 60))
	b.write("b", strings.Repeat("needle\n", 60))
	var r grepResult
	b.ok("search.grep", in{"pattern": "needle", "output_mode": "content", "head_limit": 70}, &r)
	if len(r.Matches) != 70 || r.Matches[69].File != "./b" || r.Matches[69].Line != 10 || r.TotalMatches != 120 ||
		!r.Truncated {
		t.Errorf("%d matches of %d, truncated %v", len(r.Matches), r.TotalMatches, r.Truncated)
	}
	if b.ok("search.grep", in{"pattern": "needle", "head_limit": 1}, &r); len(r.Matches) != 1 || r.TotalMatches != 2 ||
		!r.Truncated {
		t.Errorf("%d files of %d, truncated %v", len(r.Matches), r.TotalMatches, r.Truncated)
	}
	for i := range 50 {
		b.write(fmt.Sprintf("many/%03d", i), strings.Repeat(strings.Repeat("wide ", 20)+"needle\n", 100))
	}
	o := b.ok("search.grep", in{"pattern": "needle", "output_mode": "content"}, &r)
	if n := len(o.Result.Content); n > 256<<10 || n < 250<<10 || !r.Truncated || r.TotalMatches != 5120 {
		t.Errorf("%d bytes, %d of %d matches, truncated %v", n, len(r.Matches), r.TotalMatches, r.Truncated)
	}
	if !slices.IsSorted(files(r)) {
		t.Error("the files are not in order")
	}
	b.write("long", strings.Repeat("é", 5000)+"pin"+strings.Repeat("x", 5000)+"\n")
	b.ok("search.grep", in{"pattern": "pin", "output_mode": "content"}, &r)
	line := *r.Matches[0].Content
	if !strings.HasPrefix(line, "[truncated]éé") || !strings.Contains(line, "épinx") ||
		!strings.HasSuffix(line, "x[truncated]") || len([]rune(line)) != 2022 {
		t.Errorf("%d characters: %.30q ... %q", len([]rune(line)), line, line[len(line)-30:])
	}
}

func files(r grepResult) []string {
	var list []string
	for _, m := range r.Matches {
		list = append(list, m.File)
	}
	return list
}

// When its time is over, a search returns the matches found until then (T-SEARCH-GREP-06, T-SEARCH-GLOB-03, T-FM-09,
// TN-SEARCH-3).
func TestSearchTimesOut(t *testing.T) {
	t.Parallel()
	b := searchProject(t, func(b *bench) { b.limits.Search.Timeout = time.Nanosecond })
	var r grepResult
	if b.ok("search.grep", in{"pattern": "TODO"}, &r); !r.Truncated {
		t.Errorf("%+v", r)
	}
	var g globResult
	if b.ok("search.glob", in{"pattern": "**"}, &g); !g.Truncated {
		t.Errorf("%+v", g)
	}
}

// A caged search of the project returns for matches outside the cage only path and line. A search of a path outside the
// cage is denied (T-SEARCH-GREP-10, T-SEARCH-GLOB-06, T-PERM-FILTER-01, -02, T-AVAIL-03, C14).
func TestGrepInACage(t *testing.T) {
	t.Parallel()
	policy := &dsl.Cage{FS: []dsl.Mount{{Mode: "ro", Path: "./src/deep"}}}
	b := searchProject(t)
	b.from.Agent, b.from.Cage = "primary.subagents.x", policy
	var r grepResult
	b.ok("search.grep", in{"pattern": "TODO", "output_mode": "content", "include": "*.{js,ts}"}, &r)
	want := []string{
		"./.hidden/g.ts:1 outside", "./src/c.js:1 outside", "./src/deep/d.ts:2:TODO", "./src/main.ts:2 outside",
	}
	if d := cmp.Diff(want, r.flat()); d != "" {
		t.Error(d)
	}
	for _, path := range []string{"docs", "src/c.js"} {
		b.fails(fault.CapabilityDenied, "search.grep", in{"pattern": "x", "path": path})
	}
	b.fails(fault.CapabilityDenied, "search.glob", in{"pattern": "*", "path": "docs"})
	var g globResult
	if b.ok("search.glob", in{"pattern": "**/*.ts"}, &g); !slices.Equal(g.Files, []string{"./src/deep/d.ts"}) {
		t.Errorf("found %v", g.Files)
	}
	hiding := searchProject(t, func(b *bench) { b.limits.Search.HideOutside = true })
	hiding.from.Cage = policy
	r = grepResult{}
	hiding.ok("search.grep", in{"pattern": "TODO", "output_mode": "content", "include": "*.{js,ts}"}, &r)
	if d := cmp.Diff([]string{"./src/deep/d.ts:2:TODO"}, r.flat()); d != "" || r.TotalMatches != 1 {
		t.Error(d)
	}
}

type globResult struct {
	Files     []string
	Count     int
	Truncated bool
}

// Files are found by name, the most recently changed first, at most a hundred (T-SEARCH-GLOB-01..05, TN-SEARCH-4,
// T-T20-GLOB-01).
func TestGlob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	for i, name := range []string{
		"a.test.ts", "src/b.test.ts", "src/c.ts", "node_modules/d.test.ts", "src/deep/e.test.ts", ".h/f.test.ts",
	} {
		path := b.write(name, "")
		if err := os.Chtimes(path, now, now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	b.write(".gitignore", "node_modules\n")
	for pattern, want := range map[string][]string{
		"**/*.test.ts": {"./.h/f.test.ts", "./src/deep/e.test.ts", "./src/b.test.ts", "./a.test.ts"}, "*.ts": {"./a.test.ts"},
		"./src/*.ts": {"./src/c.ts", "./src/b.test.ts"}, "src/**/{b,e}.test.ts": {"./src/deep/e.test.ts", "./src/b.test.ts"},
		"*.go": {},
	} {
		var r globResult
		b.ok("search.glob", in{"pattern": pattern}, &r)
		if !slices.Equal(r.Files, want) || r.Count != len(want) || r.Truncated {
			t.Errorf("%s: %+v, want %v", pattern, r, want)
		}
	}
	var r globResult
	if b.ok("glob", in{"pattern": "*.ts", "path": "src"},
		&r); !slices.Equal(r.Files, []string{"./src/c.ts", "./src/b.test.ts"}) {
		t.Errorf("below src: %v", r.Files)
	}
	for i := range 150 {
		path := b.write(fmt.Sprintf("n/%03d", i), "")
		if err := os.Chtimes(path, now, now.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if b.ok("search.glob", in{"pattern": "n/*"}, &r); r.Count != 100 || !r.Truncated || r.Files[0] != "./n/149" ||
		r.Files[99] != "./n/050" {
		t.Errorf("%d files from %s to %s, truncated %v", r.Count, r.Files[0], r.Files[99], r.Truncated)
	}
	for _, pattern := range []string{"", "[", "/etc/*", "../*", "a/../../*"} {
		b.fails(fault.InvalidParams, "search.glob", in{"pattern": pattern})
	}
	b.fails(fault.FileNotFound, "search.glob", in{"pattern": "*", "path": "nope"})
	b.fails(fault.InvalidParams, "search.glob", in{"pattern": "*", "path": "a.test.ts"})
}

// Any glob returns soon, with files of the project or an error.
func FuzzGlob(f *testing.F) {
	for _, seed := range []string{
		"**/*.go", "{a,b}{c,d}/**", "[!a]", `\*`, "**/**/**/**/a", strings.Repeat("*a", 100), strings.Repeat("{a,a}", 9),
		"a/../b", "{", "[", "[]a]", "\xff",
	} {
		f.Add(seed)
	}
	b := newBench(f)
	b.write("a/b/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "")
	b.write("[x]", "")
	f.Fuzz(func(t *testing.T, pattern string) {
		for _, params := range []in{{"pattern": pattern}, {"pattern": ".", "include": pattern}} {
			name := map[bool]string{true: "search.glob", false: "search.grep"}[len(params) == 1]
			began := time.Now()
			o, err := b.do(t.Context(), name, params)
			if err != nil || o.Fault != nil && o.Fault.Code != fault.InvalidParams {
				t.Fatalf("%q: %v, %v", pattern, err, o.Fault)
			}
			if time.Since(began) > 5*time.Second {
				t.Fatalf("%q took %s", pattern, time.Since(began))
			}
		}
	})
}

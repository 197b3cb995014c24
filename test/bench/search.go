package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rounds is the number of times a search is run.
const rounds = 25

// grepParams are the parameters of search.grep.
type grepParams struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path,omitempty"`
	OutputMode string `json:"output_mode,omitempty"`
}

// ripgrep has the scope of search.grep: with hidden files, .gitignore even outside a repository, without .git.
var ripgrep = []string{"--no-config", "--hidden", "--no-require-git", "--glob", "!.git", "--color", "never"}

// trees returns the trees for the searches: real sources, and many small files.
func (w *world) trees(ctx context.Context) (sources, small string, err error) {
	if sources, err = w.sources(ctx); err == nil {
		small, err = w.small(ctx)
	}
	return sources, small, err
}

// measureGrep compares search.grep with ripgrep.
func measureGrep(ctx context.Context, w *world) ([]Figure, error) {
	sources, small, err := w.trees(ctx)
	if err != nil {
		return nil, err
	}
	huge, err := w.huge()
	if err != nil {
		return nil, err
	}
	rg := w.findPeer(ctx, "ripgrep", "rg")
	lines := func(name, tree, pattern string) contest {
		return contest{
			name: "grep/" + name, project: tree, tool: "search.grep", params: grepParams{pattern, "", "content"}, rounds: rounds,
			peer: rg, args: append(slices.Clone(ripgrep), "--line-number", "--no-heading", "--null", "-e", pattern, "./"),
			same: sameLines,
		}
	}
	names := func(name, tree, pattern string) contest {
		return contest{
			name: "grep/" + name, project: tree, tool: "search.grep", params: grepParams{pattern, "", "files_with_matches"},
			rounds: rounds,
			peer:   rg, args: append(slices.Clone(ripgrep), "--files-with-matches", "--null", "-e", pattern, "./"),
			same: sameNames,
		}
	}
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		return r.holdAll(ctx, w, []contest{
			lines("literal", sources, "ReadAtLeast"),
			lines("alternation", sources, "TODO|FIXME|XXX"),
			lines("either-case", sources, `(?i)todo\(\w+\)`),
			lines("word", sources, `\bReader\b`),
			lines("literal-inside", sources, `func \w+Error\(`),
			lines("classes", sources, `\b[A-Z]{3,}_[A-Z]+\b`),
			lines("digits", sources, `\w+\s+\d{5,}`),
			lines("line-end", sources, `return .*, (err|nil)$`),
			lines("no-match", sources, "zzzzqqq"),
			lines("many-matches", sources, `\berr\b`),
			names("every-file", sources, "the"),
			names("small-files", small, "parseHeader"),
			lines("small-files-lines", small, "unexpected user_id"),
			lines("huge-file", huge, "tenant tenant tenant tenant"),
			lines("huge-file-regex", huge, `0x7f (refused|closed) \d+ `),
		})
	})
}

type grepAnswer struct {
	Matches []struct {
		File    string
		Line    int
		Content string
	}
	TotalMatches int `json:"total_matches"`
	Truncated    bool
}

// sameLines compares the result of search.grep with ripgrep's "path NUL line : text". A truncated answer must be the
// beginning of ripgrep's, with the count of all.
func sameLines(ours string, theirs []byte) error {
	var answer grepAnswer
	if err := json.Unmarshal([]byte(ours), &answer); err != nil {
		return err
	}
	type place struct {
		file string
		line int
		text string
	}
	var places []place
	for line := range bytes.Lines(theirs) {
		name, rest, ok := bytes.Cut(line, []byte{0})
		number, text, ok2 := bytes.Cut(rest, []byte{':'})
		n, err := strconv.Atoi(string(number))
		if !ok || !ok2 || err != nil {
			return fmt.Errorf("the peer printed %q", line)
		}
		places = append(places, place{string(name), n, strings.TrimRight(string(text), "\r\n")})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	if answer.TotalMatches != len(places) {
		return fmt.Errorf("%d lines match, the peer found %d", answer.TotalMatches, len(places))
	}
	if !answer.Truncated && len(answer.Matches) != len(places) || answer.Truncated && len(answer.Matches) == 0 {
		return fmt.Errorf("%d of %d lines were returned, truncated %v", len(answer.Matches), len(places), answer.Truncated)
	}
	for i, m := range answer.Matches {
		p := places[i]
		if m.File != p.file || m.Line != p.line || !strings.Contains(m.Content, "[truncated]") &&
			m.Content != strings.ToValidUTF8(p.text, "\uFFFD") {
			return fmt.Errorf("match %d is %s:%d:%.80q, the peer's %s:%d:%.80q", i, m.File, m.Line, m.Content, p.file, p.line,
				p.text)
		}
	}
	return nil
}

// sameNames compares the files that search.grep found with those of ripgrep.
func sameNames(ours string, theirs []byte) error {
	var answer grepAnswer
	if err := json.Unmarshal([]byte(ours), &answer); err != nil {
		return err
	}
	names := split(theirs)
	slices.Sort(names)
	if answer.TotalMatches != len(names) {
		return fmt.Errorf("%d files match, the peer found %d", answer.TotalMatches, len(names))
	}
	for i, m := range answer.Matches {
		if m.File != names[i] {
			return fmt.Errorf("file %d is %s, the peer's %s", i, m.File, names[i])
		}
	}
	return nil
}

// split returns the names in a list separated by NULs.
func split(list []byte) []string {
	return strings.FieldsFunc(string(list), func(r rune) bool { return r == 0 })
}

// measureGlob compares search.glob with fd and ripgrep's list of files.
func measureGlob(ctx context.Context, w *world) ([]Figure, error) {
	sources, small, err := w.trees(ctx)
	if err != nil {
		return nil, err
	}
	fd, rg := w.findPeer(ctx, "fd", "fd", "fdfind"), w.findPeer(ctx, "ripgrep", "rg")
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		var contests []contest
		for _, c := range []struct{ name, tree, pattern string }{
			{"all", sources, "*"},
			{"extension", sources, "*_test.go"},
			{"few", sources, "*_amd64.s"},
			{"none", sources, "zzz*"},
			{"small-files", small, "*.tsx"},
		} {
			contests = append(contests, globAgainst("glob/"+c.name+"/fd", c.tree, c.pattern, fd, fdArgs(c.pattern)))
			if c.pattern == "*" {
				contests = append(contests, globAgainst("glob/"+c.name+"/rg", c.tree, c.pattern, rg, filesArgs))
			}
		}
		return r.holdAll(ctx, w, contests)
	})
}

// fdArgs make fd search names like search.glob; filesArgs make ripgrep list every file.
func fdArgs(pattern string) []string {
	return []string{
		"--hidden", "--case-sensitive", "--exclude", ".git", "--type", "f", "--print0", "--color", "never", "--glob", pattern,
		".",
	}
}

var filesArgs = append(slices.Clone(ripgrep), "--files", "--null", "./")

func globAgainst(name, tree, pattern string, p peer, args []string) contest {
	return contest{
		name: name, project: tree, tool: "search.glob", params: map[string]string{"pattern": "**/" + pattern}, rounds: rounds,
		peer: p, args: args,
		same: func(ours string, theirs []byte) error { return sameNewest(tree, ours, theirs) },
	}
}

// sameNewest compares the files that search.glob returned with the hundred most recently changed files of the peer.
func sameNewest(tree, ours string, theirs []byte) error {
	const most = 100
	var answer struct {
		Files     []string
		Truncated bool
	}
	if err := json.Unmarshal([]byte(ours), &answer); err != nil {
		return err
	}
	type aged struct {
		name    string
		changed int64
	}
	var files []aged
	for _, name := range split(theirs) {
		info, err := os.Lstat(filepath.Join(tree, name))
		if err != nil {
			return err
		}
		files = append(files, aged{"./" + filepath.Clean(name), info.ModTime().UnixNano()})
	}
	slices.SortFunc(files, func(a, b aged) int {
		return cmp.Or(cmp.Compare(b.changed, a.changed), strings.Compare(a.name, b.name))
	})
	if answer.Truncated != (len(files) > most) {
		return fmt.Errorf("truncated is %v, the peer found %d files", answer.Truncated, len(files))
	}
	files = files[:min(most, len(files))]
	if len(answer.Files) != len(files) {
		return errors.New("the numbers of files differ")
	}
	for i, f := range files {
		if answer.Files[i] != f.name {
			return fmt.Errorf("file %d is %s, by the peer's list %s", i, answer.Files[i], f.name)
		}
	}
	return nil
}

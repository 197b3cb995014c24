package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
)

// The kinds and origins of changes.
const (
	Created  = "created"
	Modified = "modified"
	Deleted  = "deleted"

	ByTool  = "tool"
	Outside = "outside"
)

// The reasons why a file has no diff.
const (
	Binary    = "binary"
	TooLarge  = "too_large"
	ImageLost = "image_lost"
	// Filtered is the reason for a file that git stores through a filter driver, which is never run.
	Filtered = "filtered"
)

// File is a file that differs from its earlier content.
type File struct {
	// Path is relative to the project's root.
	Path         string
	Kind, Origin string
	Agents       []string
	Added        int
	Removed      int
	Diff         string
	Truncated    bool
	NoDiff       string
}

// Found is the result of a search.
type Found struct {
	Files []File
	// Truncated means that there may be more: a limit was reached, or the repository cannot be read.
	Truncated bool
	// Head is the commit, "" outside a repository.
	Head string
}

// Query selects changes.
type Query struct {
	Root    string
	Rules   paths.Rules
	Session string
	// Since is the beginning of the session, in milliseconds.
	Since int64
	// Path is the only requested file, relative to the root, "" for all.
	Path string
	// LookupEnv finds the user's ignore rules.
	LookupEnv func(string) (string, bool)
	// Sniff names the content type of a file.
	Sniff text.Sniffer
}

// Sizes of answers.
const (
	maxFiles     = 1000
	listedDiff   = 64 << 10
	wholeDiff    = 1 << 20
	allDiffs     = 8 << 20
	comparedFile = 5 << 20
)

// List returns the changed files sorted by path. It fails with not_found if the root is not a folder.
func (i *Images) List(ctx context.Context, q Query) (Found, error) {
	space, err := paths.Open(q.Root, q.Rules)
	if err != nil {
		return Found{}, err
	}
	defer space.Close()
	l := &listing{Query: q, space: space, limit: listedDiff, known: map[string]bool{}}
	if q.Path != "" {
		l.limit = wholeDiff
	}
	if err := i.byTools(l); err != nil {
		return Found{}, err
	}
	select {
	case i.readers <- struct{}{}:
	case <-ctx.Done():
		return Found{}, ctx.Err()
	}
	defer func() { <-i.readers }()
	if err := l.outside(ctx, i.log); err != nil {
		return Found{}, err
	}
	slices.SortFunc(l.found.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return l.found, nil
}

// listing is the state of one List.
type listing struct {
	Query
	space *paths.Space
	limit int
	known map[string]bool // relative paths with an image
	found Found
	bytes int
}

// byTools adds the files with an image.
func (i *Images) byTools(l *listing) error {
	if i.dir == "" || !ident.Valid(l.Session) {
		return nil
	}
	i.mu.Lock()
	list, err := i.read(l.Session)
	i.mu.Unlock()
	if err != nil {
		return fault.Wrap(err, fault.FileIO, "The changes of the session cannot be read.")
	}
	first, agents := map[string]record{}, map[string]map[string]bool{}
	for _, r := range list {
		if agents[r.Path] == nil {
			first[r.Path], agents[r.Path] = r, map[string]bool{}
		}
		agents[r.Path][r.Agent] = true
	}
	for _, abs := range slices.Sorted(maps.Keys(first)) {
		rel, err := filepath.Rel(l.space.Root(), abs)
		if err != nil || !filepath.IsLocal(rel) {
			continue // in an allowed folder outside
		}
		l.known[rel] = true
		if l.Path != "" && l.Path != rel {
			continue
		}
		r := first[abs]
		before := side{missing: r.Missing, sum: r.SHA256, lost: r.Unkept}
		if r.SHA256 != "" {
			data, err := os.ReadFile(filepath.Join(i.folder(l.Session), r.SHA256))
			before.data, before.lost = data, err != nil
		}
		if after, shown := l.now(rel); shown {
			l.add(rel, before, after, ByTool, slices.Sorted(maps.Keys(agents[abs])))
		}
	}
	return nil
}

// side is a file before or after the change.
type side struct {
	missing bool
	sum     string
	data    []byte
	// lost says that its content is not known, large that it was not read, filtered that git stores it through a filter
	// driver.
	lost, large, filtered bool
}

// now returns the present file, and whether it can be shown.
func (l *listing) now(rel string) (side, bool) {
	at, err := l.space.Resolve("path", rel)
	if err != nil {
		return side{}, false
	}
	f, info, err := at.OpenFile()
	if errors.Is(err, fault.FileNotFound) {
		return side{missing: true}, true
	}
	if err != nil {
		return side{}, false
	}
	defer f.Close()
	if info.Size() > comparedFile {
		return side{large: true}, true
	}
	data, err := io.ReadAll(io.LimitReader(f, comparedFile+1))
	if err != nil || len(data) > comparedFile {
		return side{large: true}, err == nil
	}
	sum := sha256.Sum256(data)
	return side{data: data, sum: hex.EncodeToString(sum[:])}, true
}

// add adds a file if it differs.
func (l *listing) add(rel string, before, after side, origin string, agents []string) {
	if before.missing && after.missing || before.sum != "" && before.sum == after.sum {
		return
	}
	if len(l.found.Files) == maxFiles {
		l.found.Truncated = true
		return
	}
	f := File{Path: rel, Origin: origin, Agents: agents, Kind: Modified}
	switch {
	case before.missing:
		f.Kind = Created
	case after.missing:
		f.Kind = Deleted
	}
	switch {
	case before.lost:
		f.NoDiff = ImageLost
	case after.filtered:
		f.NoDiff = Filtered
	case before.large || after.large:
		f.NoDiff = TooLarge
	case l.binary(before.data) || l.binary(after.data):
		f.NoDiff = Binary
	default:
		l.compare(&f, string(before.data), string(after.data))
	}
	l.found.Files = append(l.found.Files, f)
}

func (l *listing) binary(data []byte) bool {
	is, _ := text.Binary(data[:min(len(data), text.HeadSize)], l.Sniff)
	return is || !utf8.Valid(data)
}

// compare fills in the diff of two texts.
func (l *listing) compare(f *File, before, after string) {
	diff := edit.DiffTexts("./"+f.Path, before, after, wholeDiff)
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		case line[0] == '+':
			f.Added++
		case line[0] == '-':
			f.Removed++
		}
	}
	limit := min(l.limit, max(allDiffs-l.bytes, 0))
	if len(diff) > limit {
		f.Truncated = true
		diff = clip.Lines(diff, limit)
	}
	l.bytes += len(diff)
	f.Diff = diff
}

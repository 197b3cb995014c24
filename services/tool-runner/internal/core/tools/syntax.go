package tools

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/pkg/workspace/walk"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// SyntaxLimits are the limits of parsing files.
type SyntaxLimits struct {
	// FileBytes is the maximum size of a parsed file, Nodes the maximum number of nodes of its tree.
	FileBytes int64
	Nodes     int
	// Parsers is the maximum number of files parsed at once by all calls together.
	Parsers int
}

// compile compiles a pattern for one call.
func (d Deps) compile(
	ctx context.Context, lang *syntax.Language, pattern, field string,
) (compiled *astgrep.Pattern, err error) {
	err = d.Parsers.Use(ctx, func(p *syntax.Parser) error {
		compiled, err = astgrep.Compile(ctx, p, lang, pattern)
		return err
	})
	return compiled, syntaxFailure(err, field)
}

// syntaxFailure turns an error of parsing or of a pattern into an error that a model can act on.
func syntaxFailure(err error, field string) error {
	var bad *astgrep.PatternError
	switch {
	case errors.As(err, &bad):
		return fault.New(fault.InvalidPattern, "%s", bad.Error()).With("field", field).With("pattern", bad.Pattern)
	case errors.Is(err, syntax.ErrUnavailable):
		return fault.New(fault.Unavailable, "Structural search is not available here: this kaged was built without cgo. "+
			"Use search.grep.")
	}
	return err
}

// sources reads the files of one or more languages below a path.
type sources struct {
	deps  Deps
	call  *tool.Call
	start paths.Path
	want  func(folder paths.Path, name string) bool
	// read is called for each file, by several goroutines at once.
	read func(ctx context.Context, file paths.Path, text []byte)
	// skipped receives files that cannot be read as source, with the reason.
	skipped func(file paths.Path, problem string)
}

// each reads the files below the path, or the file at the path. want selects files only below a folder.
func (s *sources) each(ctx context.Context) error {
	if !s.start.Exists {
		return notThere(s.start)
	}
	if s.start.Mode.IsDir() {
		return walk.Files(ctx, s.start, s.deps.walkOptions(s.call, s.start, s.want), s.visit)
	}
	f, _, err := s.start.OpenFile()
	if err != nil {
		return err
	}
	defer f.Close()
	s.one(ctx, s.start, f)
	return ctx.Err()
}

func (s *sources) visit(ctx context.Context, folder *walk.Folder, names []string) {
	readEach(ctx, folder, names, func(name string, r io.Reader) { s.one(ctx, folder.Path.Join(name), r) })
}

func (s *sources) one(ctx context.Context, file paths.Path, r io.Reader) {
	limit := s.deps.Limits.Syntax.FileBytes
	data, err := readSource(r, limit)
	switch {
	case err != nil:
		s.skipped(file, "it could not be read")
	case int64(len(data)) > limit:
		s.skipped(file, tooLarge(file, limit).Error())
	case !utf8.Valid(data):
		s.skipped(file, "it is not UTF-8 text")
	default:
		s.read(ctx, file, data)
	}
}

// readSource reads at most one byte more of a file than the limit.
func readSource(r io.Reader, limit int64) ([]byte, error) {
	data := make([]byte, 0, min(limit+1, 32<<10))
	for {
		if len(data) == cap(data) {
			data = slices.Grow(data, cap(data))
		}
		n, err := r.Read(data[len(data):min(int64(cap(data)), limit+1)])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF || int64(len(data)) > limit:
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

// maxGlobs is the maximum length of a list of globs. Each glob is tried for each name.
const maxGlobs = 100

// globs returns a filter for file names by a list of globs. The last matching glob decides: a glob that starts with !
// excludes the file. If all globs start with !, the other files are included.
func globs(field string, list []string, start paths.Path) (func(paths.Path, string) bool, error) {
	type rule struct {
		match func(paths.Path, string) bool
		with  bool
	}
	if len(list) > maxGlobs {
		return nil,
			fault.New(fault.InvalidParams, "There are %d globs in %s; at most %d are taken.", len(list), field, maxGlobs).
				With("field", field)
	}
	var rules []rule
	positive := false
	for _, glob := range list {
		text, against := strings.CutPrefix(glob, "!")
		match, err := includes(field, text, start)
		if err != nil {
			return nil, err
		}
		if match == nil {
			return nil, fault.New(fault.InvalidParams, "A glob in %s is empty.", field).With("field", field)
		}
		rules = append(rules, rule{match, !against})
		positive = positive || !against
	}
	return func(folder paths.Path, name string) bool {
		for i := len(rules) - 1; i >= 0; i-- {
			if rules[i].match(folder, name) {
				return rules[i].with
			}
		}
		return !positive
	}, nil
}

// speaks returns a filter for the file names of a language.
func speaks(lang *syntax.Language) func(string) bool {
	return func(name string) bool { return syntax.Of(name) == lang }
}

// lines finds positions in a source by lines.
type lines struct {
	text []byte
	at   int // the offset up to which the text was scanned
	here place
}

// place is a position in a text: the line from 1, the column from 0 in UTF-16 units.
type place struct{ line, column int }

// locate returns the position of an offset. Calls with ascending offsets scan the text once in total.
func (l *lines) locate(offset int) place {
	if l.here.line == 0 || offset < l.at {
		l.at, l.here = 0, place{line: 1}
	}
	for l.at < offset {
		r, size := utf8.DecodeRune(l.text[l.at:])
		switch {
		case r == '\n':
			l.here = place{line: l.here.line + 1}
		case r >= 0x10000:
			l.here.column += 2
		default:
			l.here.column++
		}
		l.at += size
	}
	return l.here
}

// around returns up to n lines before and after the bytes from start to end.
func (l *lines) around(start, end, n int, shown func([]byte) string) (before, behind []string) {
	before, behind = []string{}, []string{}
	begin := bytes.LastIndexByte(l.text[:start], '\n') + 1
	for range n {
		if begin == 0 {
			break
		}
		from := bytes.LastIndexByte(l.text[:begin-1], '\n') + 1
		before = append(before, shown(l.text[from:begin-1]))
		begin = from
	}
	slices.Reverse(before)
	for at := end; len(behind) < n; {
		i := bytes.IndexByte(l.text[at:], '\n')
		if i < 0 || at+i+1 >= len(l.text) {
			break
		}
		at += i + 1
		to := bytes.IndexByte(l.text[at:], '\n')
		if to < 0 {
			to = len(l.text) - at
		}
		behind = append(behind, shown(l.text[at:at+to]))
	}
	return before, behind
}

// excerptOf returns at most the given number of characters of a piece of source.
func excerptOf(piece []byte, runes int) string {
	piece = piece[:min(len(piece), (runes+1)*utf8.UTFMax)] // a longer piece would be cut anyway
	shown, cut := clip.Runes(strings.TrimSuffix(string(piece), "\r"), runes)
	if cut {
		shown += text.Cut
	}
	return shown
}

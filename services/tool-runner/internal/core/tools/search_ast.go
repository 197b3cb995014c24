package tools

import (
	"context"
	_ "embed"
	"sync"
	"sync/atomic"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed search_ast.md
var searchAstText string

type searchAstParams struct {
	Pattern string     `json:"pattern" doc:"Code with meta variables ($NAME, $$$NAME): one complete expression, statement or declaration."`
	Lang    string     `json:"lang" enum:"bash,c,cpp,csharp,css,go,hcl,html,java,javascript,json,kotlin,lua,php,python,ruby,rust,swift,tsx,typescript,yaml" doc:"Language of the pattern and of the files."`
	Paths   []string   `json:"paths,omitempty" doc:"Folders or files to search. Default: the project's root."`
	Globs   []string   `json:"globs,omitempty" doc:"Globs that file names must match; ! excludes."`
	Context schema.Int `json:"context,omitempty" min:"0" max:"100" default:"0" doc:"Lines to show before and after each match."`
}

type searchAstResult struct {
	Matches   []astMatch `json:"matches"`
	Count     int        `json:"count" doc:"How many matches there are, shown or not."`
	Truncated bool       `json:"truncated"`
	Hint      string     `json:"hint,omitempty"`
	// An unsearched file must not look like a file without a match.
	FilesSkipped int `json:"files_skipped,omitempty" doc:"How many files of the language were not searched: too large, no UTF-8 text, or not to be read."`
}

type astMatch struct {
	File          string            `json:"file"`
	Line          int               `json:"line"`
	Column        int               `json:"column"`
	EndLine       int               `json:"end_line"`
	EndColumn     int               `json:"end_column"`
	ByteStart     int               `json:"byte_start"`
	ByteEnd       int               `json:"byte_end"`
	Content       *string           `json:"content,omitempty"`
	MetaVariables map[string]string `json:"meta_variables,omitempty"`
	ContextBefore []string          `json:"context_before,omitempty"`
	ContextAfter  []string          `json:"context_after,omitempty"`
	OutsideCage   bool              `json:"outside_cage,omitempty"`
}

func searchAst(d Deps) *tool.Entry {
	limits := d.Limits
	return tool.Define(tool.Spec[searchAstParams, searchAstResult]{
		Name: "search.ast", Description: searchAstText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		OwnTimeout: true,
		Requires:   []tool.Requirement{tool.SearchPath("paths", tool.CallerPath)},
		Needs: func(p *searchAstParams) []tool.Requirement {
			needs := []tool.Requirement{}
			for _, path := range p.places() {
				needs = append(needs, tool.SearchPath("paths", path))
			}
			return needs
		},
		Aliases: []tool.Alias{
			tool.AliasOf("search.ast_grep", searchAstText, func(p searchAstParams) searchAstParams { return p }),
		},
		Limits: []tool.Limit{
			tool.InTime("search_timeout", limits.Search.Timeout, "a search may take; what was found until then is the answer"),
			tool.InBytes("search_output_bytes", limits.Search.OutputBytes, "of the answer"),
			tool.InBytes("syntax_file_bytes", limits.Syntax.FileBytes, "of the largest file that is parsed"),
		},
		Run: d.searchCode,
	})
}

// places returns the paths to search.
func (p *searchAstParams) places() []string {
	if len(p.Paths) == 0 {
		return []string{"."}
	}
	return p.Paths
}

// codeSearch is one search.
type codeSearch struct {
	deps    Deps
	call    *tool.Call
	pattern *astgrep.Pattern
	names   []string
	context int
	found   *matches[astMatch]

	skipped atomic.Int64 // files that could not be searched

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// searchCode searches the files of a language below some paths.
func (d Deps) searchCode(ctx context.Context, call *tool.Call, p *searchAstParams) (searchAstResult, error) {
	lang := syntax.Lookup(p.Lang)
	pattern, err := d.compile(ctx, lang, p.Pattern, "pattern")
	if err != nil {
		return searchAstResult{}, err
	}
	s := &codeSearch{
		deps: d, call: call, pattern: pattern, names: pattern.Names(), context: int(p.Context),
		found: newMatches[astMatch](d.Limits.Search.OutputBytes, 0), seen: map[string]bool{},
	}
	bounded, cancel := context.WithTimeout(ctx, d.Limits.Search.Timeout)
	defer cancel()
	late := false
	for _, start := range call.Paths {
		chosen, err := globs("globs", p.Globs, start)
		if err != nil {
			return searchAstResult{}, err
		}
		files := sources{
			deps: d, call: call, start: start, read: s.file, skipped: func(file paths.Path, _ string) { s.skip(file) },
			want: func(folder paths.Path, name string) bool { return speaks(lang)(name) && chosen(folder, name) },
		}
		err = files.each(bounded)
		if late = ranOut(ctx, err); late {
			break
		}
		if err != nil {
			return searchAstResult{}, syntaxFailure(err, "pattern")
		}
	}
	list, truncated := s.found.result(late)
	r := searchAstResult{Matches: list, Count: s.found.total, Truncated: truncated, FilesSkipped: int(s.skipped.Load())}
	if r.Count == 0 && !late {
		r.Hint = hint(pattern)
	}
	return r, nil
}

// hint explains the reading of the pattern, for a caller surprised by no matches.
func hint(p *astgrep.Pattern) string {
	kind := p.Kind()
	if kind == "" {
		return ""
	}
	text := "The pattern was read as " + kind + "; it matches nodes of that kind only."
	if p.Language().Name == "go" && kind == "type_conversion_expression" {
		text += " In Go a lone qualified call with one argument reads like a conversion: put it into a statement, such as " +
			"$X := pkg.F($A) or return pkg.F($A), or use $$$ARGS for the arguments."
	}
	return text
}

// file searches one file and keeps those of its matches that can be shown.
func (s *codeSearch) file(ctx context.Context, file paths.Path, text []byte) {
	outside := !s.call.Access.Allows(file.Abs(), false)
	if outside && s.deps.Limits.Search.HideOutside || !s.pattern.Possible(text) || !s.first(file) {
		return
	}
	found, wanted := fileMatches[astMatch]{file: file.Show}, false
	err := s.deps.Parsers.Use(ctx, func(parser *syntax.Parser) error {
		tree, err := s.pattern.Parse(ctx, parser, text, s.deps.Limits.Syntax.Nodes)
		if err != nil {
			return err
		}
		at := lines{text: text}
		return s.pattern.Find(ctx, &tree, true, func(m astgrep.Match) bool {
			if found.count++; found.count == 1 {
				wanted = s.found.wants(file.Show)
			}
			if wanted && found.bytes <= s.deps.Limits.Search.OutputBytes {
				e := s.entry(file, &tree, &at, m, outside)
				found.add(e, e.size())
			}
			return true
		})
	})
	if err != nil && ctx.Err() == nil && !outside { // an outside file is parsed only if it has the pattern's text
		s.skipped.Add(1)
	}
	if found.count > 0 {
		found.cut = len(found.entries) < found.count
		s.found.add(found)
	}
}

// skip counts a file that could not be searched, once, unless it must not be reported.
func (s *codeSearch) skip(file paths.Path) {
	if !s.deps.Limits.Search.HideOutside || s.call.Access.Allows(file.Abs(), false) {
		if s.first(file) {
			s.skipped.Add(1)
		}
	}
}

// size returns the number of bytes of a match in the answer with its comma, or slightly more.
func (m *astMatch) size() int {
	const names = 160
	n := names + quoted(m.File)
	if m.Content != nil {
		n += quoted(*m.Content)
	}
	for name, value := range m.MetaVariables {
		n += len(name) + quoted(value) + 4
	}
	for _, line := range m.ContextBefore {
		n += quoted(line) + 1
	}
	for _, line := range m.ContextAfter {
		n += quoted(line) + 1
	}
	return n
}

// first reports whether a file is not yet searched. It is always true for a search of one path.
func (s *codeSearch) first(file paths.Path) bool {
	if len(s.call.Paths) == 1 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen[file.Abs()]
	s.seen[file.Abs()] = true
	return !seen
}

// entry returns a match in the form for the answer. For a match outside the cage the answer has only the position.
func (s *codeSearch) entry(file paths.Path, tree *syntax.Tree, at *lines, m astgrep.Match, outside bool) astMatch {
	start, end := tree.Span(m.Node, 1)
	from := at.locate(start)
	if outside {
		return astMatch{File: file.Show, Line: from.line, OutsideCage: true}
	}
	behind := *at
	to := behind.locate(end)
	most := s.deps.Limits.LineRunes
	content := excerptOf(tree.Text[start:end], most)
	e := astMatch{
		File: file.Show, Line: from.line, Column: from.column, EndLine: to.line, EndColumn: to.column, ByteStart: start,
		ByteEnd: end,
		Content: &content, MetaVariables: map[string]string{},
	}
	for i, name := range s.names {
		if c := m.Captures[i]; c.First >= 0 {
			from, to := tree.Span(c.First, c.Count)
			if _, single := e.MetaVariables[name]; !single || c.Count == 1 {
				e.MetaVariables[name] = excerptOf(tree.Text[from:to], most)
			}
		}
	}
	if s.context > 0 {
		e.ContextBefore, e.ContextAfter = at.around(start, end, s.context, func(line []byte) string {
			return excerptOf(line, most)
		})
	}
	return e
}

package tools

import (
	"context"
	_ "embed"
	"io"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/search"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/walk"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed search_grep.md
var searchGrepText string

// The output modes of search.grep.
const (
	modeContent = "content"
	modeFiles   = "files_with_matches"
	modeCount   = "count"
)

type searchGrepParams struct {
	Pattern    string     `json:"pattern" doc:"Regular expression (RE2)."`
	Path       string     `json:"path,omitempty" default:"." doc:"Folder to search. Default: the project's root."`
	Include    string     `json:"include,omitempty" doc:"Glob that file names must match, such as *.ts or *.{ts,tsx}."`
	OutputMode string     `json:"output_mode,omitempty" enum:"content,files_with_matches,count" default:"files_with_matches" doc:"What to return."`
	HeadLimit  schema.Int `json:"head_limit,omitempty" min:"1" doc:"How many entries to return at most. Default: no limit."`
}

type flatGrepParams struct {
	Pattern string `json:"pattern" doc:"Regular expression (RE2)."`
	Path    string `json:"path,omitempty" default:"." doc:"Folder to search. Default: the project's root."`
	Include string `json:"include,omitempty" doc:"Glob that file names must match, such as *.go."`
}

type searchGrepResult struct {
	Matches      []grepMatch `json:"matches"`
	TotalMatches int         `json:"total_matches"`
	Truncated    bool        `json:"truncated"`
}

type grepMatch struct {
	File        string  `json:"file"`
	Line        int     `json:"line,omitempty"`
	Content     *string `json:"content,omitempty"`
	Count       int     `json:"count,omitempty"`
	OutsideCage bool    `json:"outside_cage,omitempty"`
}

func searchGrep(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[searchGrepParams, searchGrepResult]{
		Name: "search.grep", Description: searchGrepText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		OwnTimeout: true,
		Requires:   []tool.Requirement{tool.SearchPath("path", tool.CallerPath)},
		Needs: func(p *searchGrepParams) []tool.Requirement {
			return []tool.Requirement{tool.SearchPath("path", p.Path)}
		},
		Aliases: []tool.Alias{
			tool.AliasOf("grep", "Search file contents by regular expression (RE2) and return the matching lines with paths "+
				"and line numbers.",
				func(p flatGrepParams) searchGrepParams {
					return searchGrepParams{Pattern: p.Pattern, Path: p.Path, Include: p.Include, OutputMode: modeContent}
				}),
		},
		Limits: []tool.Limit{
			tool.InTime("search_timeout", d.Limits.Search.Timeout, "of one search; what was found until then is the answer"),
			tool.InBytes("search_output_bytes", d.Limits.Search.OutputBytes, "of one answer"),
			tool.InNumber("read_line_chars", d.Limits.Search.LineRunes, "characters of one line"),
		},
		Run: d.grep,
	})
}

// grep is one search.
type grep struct {
	call    *tool.Call
	pattern *search.Pattern
	outside *search.Pattern // for files outside the caller's cage; nil if these are not searched
	mode    string
	limits  SearchLimits
	found   *matches[grepMatch]
}

// grep searches the files below a folder, or one file.
func (d Deps) grep(ctx context.Context, call *tool.Call, p *searchGrepParams) (searchGrepResult, error) {
	start := call.Paths[0]
	if !start.Exists {
		return searchGrepResult{}, notThere(start)
	}
	pattern, err := search.Compile(p.Pattern)
	if err != nil {
		return searchGrepResult{}, fault.New(fault.InvalidParams, "The pattern is not a regular expression: %v.", err).
			With("field", "pattern")
	}
	want, err := includes("include", p.Include, start)
	if err != nil {
		return searchGrepResult{}, err
	}
	limits := d.Limits.Search
	g := &grep{
		call: call, pattern: pattern, mode: p.OutputMode, limits: limits,
		found: newMatches[grepMatch](limits.OutputBytes, int(p.HeadLimit)),
	}
	if !call.Access.Uncaged() && !limits.HideOutside {
		// A match tells that the file has the word. Any other pattern would let an agent read the file, bit by bit.
		g.outside, _ = pattern.Words()
	}
	bounded, cancel := context.WithTimeout(ctx, limits.Timeout)
	defer cancel()
	if start.Mode.IsDir() {
		err = walk.Files(bounded, start, d.walkOptions(call, start, want), g.visit)
	} else {
		err = g.one(bounded, start)
	}
	late := ranOut(ctx, err)
	if err != nil && !late {
		return searchGrepResult{}, err
	}
	list, truncated := g.found.result(late)
	return searchGrepResult{Matches: list, TotalMatches: g.found.total, Truncated: truncated}, nil
}

// one searches a single file.
func (g *grep) one(ctx context.Context, file paths.Path) error {
	f, _, err := file.OpenFile()
	if err != nil {
		return err
	}
	defer f.Close()
	g.scan(ctx, func() paths.Path { return file }, f)
	return ctx.Err()
}

func (g *grep) visit(ctx context.Context, folder *walk.Folder, names []string) {
	readEach(ctx, folder, names, func(name string, r io.Reader) {
		g.scan(ctx, func() paths.Path { return folder.Path.Join(name) }, r)
	})
}

// scan searches one file and keeps those of its matches that can be shown. Most files have no match, so the path of a
// file is built only when it is needed.
func (g *grep) scan(ctx context.Context, path func() paths.Path, r io.Reader) {
	var found fileMatches[grepMatch]
	outside, content := false, g.mode == modeContent
	caged, pattern := !g.call.Access.Uncaged(), g.pattern
	if caged {
		file := path()
		found.file, outside = file.Show, !g.call.Access.Allows(file.Abs(), false)
		if outside {
			if pattern = g.outside; pattern == nil {
				return
			}
		}
	}
	// The matches found before a read error are kept.
	_ = pattern.Scan(ctx, r, func(line int, text []byte, at int) bool {
		if found.count++; found.count == 1 {
			if !caged {
				found.file = path().Show
			}
			content = content && g.found.wants(found.file)
		}
		if content && found.bytes <= g.limits.OutputBytes {
			m := grepMatch{File: found.file, Line: line, OutsideCage: outside}
			if !outside {
				excerpt := g.excerpt(text, at)
				m.Content = &excerpt
			}
			found.add(m, m.size())
		}
		return g.mode != modeFiles
	})
	if found.count == 0 {
		return
	}
	found.cut = g.mode == modeContent && len(found.entries) < found.count
	if g.mode != modeContent {
		m := grepMatch{File: found.file, OutsideCage: outside}
		if g.mode == modeCount {
			m.Count = found.count
		}
		found.add(m, m.size())
	}
	g.found.add(found)
}

package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/memories"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed memory_search.md
var memorySearchText string

//go:embed memory_get.md
var memoryGetText string

// MemoryLimits are the limits of the tools for notes; sizes are in bytes.
type MemoryLimits struct {
	// Notes are the limits of the notes themselves.
	Notes memories.Limits
	// SnippetRunes is the maximum number of characters of a snippet.
	SnippetRunes int
}

// maxQuestion is the maximum size of a query in bytes.
const maxQuestion = 4 << 10

type memorySearchParams struct {
	Query      string     `json:"query" doc:"What is looked for, in your own words."`
	MaxResults schema.Int `json:"max_results,omitempty" default:"6" min:"1" max:"50" doc:"Most passages to return."`
	MinScore   float64    `json:"min_score,omitempty" default:"0.35" min:"0" max:"1" doc:"Lowest score to return."`
}

type memorySearchResult struct {
	Results      []memoryHit `json:"results" doc:"The best first."`
	TotalMatches int         `json:"total_matches" doc:"How many passages have at least min_score."`
	Files        int         `json:"files" doc:"How many files were searched."`
	FilesSkipped int         `json:"files_skipped,omitempty" doc:"Files left out: too large, too many, binary."`
}

type memoryHit struct {
	Path    string  `json:"path"`
	From    int     `json:"from" doc:"First line of the passage."`
	To      int     `json:"to" doc:"Last line of the passage."`
	Score   float64 `json:"score" doc:"From 0 to 1; about 0.6 is a passage that holds each word of the query once."`
	Snippet string  `json:"snippet"`
}

func memorySearch(d Deps) *tool.Entry {
	limits := d.Limits.Memory
	return tool.Define(tool.Spec[memorySearchParams, memorySearchResult]{
		Name: "memory.search", Description: memorySearchText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		Requires: []tool.Requirement{tool.SearchPath("path", tool.CallerPath)},
		// The search leaves out files that the cage does not grant.
		Needs: func(*memorySearchParams) []tool.Requirement { return []tool.Requirement{tool.SearchPath("path", ".")} },
		Aliases: []tool.Alias{tool.AliasOf("memory_search", memorySearchText,
			func(p memorySearchParams) memorySearchParams { return p })},
		Limits: []tool.Limit{
			tool.InNumber("memory_files", limits.Notes.Files, "files that are searched"),
			tool.InBytes("memory_file_bytes", limits.Notes.FileBytes, "of the largest file that is searched"),
			tool.InBytes("memory_total_bytes", limits.Notes.TotalBytes, "of all files that are searched"),
			tool.InNumber("memory_snippet_chars", limits.SnippetRunes, "characters of one snippet"),
		},
		Run: d.searchMemory,
	})
}

// searchMemory answers a query from the notes that the caller may read.
func (d Deps) searchMemory(ctx context.Context, call *tool.Call, p *memorySearchParams) (memorySearchResult, error) {
	switch {
	case strings.TrimSpace(p.Query) == "":
		return memorySearchResult{}, fault.New(fault.InvalidParams, "The query is empty.").With("field", "query")
	case len(p.Query) > maxQuestion:
		return memorySearchResult{}, fault.New(fault.InvalidParams, "The query is longer than %d bytes.",
			maxQuestion).With("field", "query")
	}
	view, err := json.Marshal(call.From.Cage)
	if err != nil {
		return memorySearchResult{}, err
	}
	from := memories.Caller{Space: call.Space, Access: call.Access, View: string(view)}
	answer, err := d.Notes.Search(ctx, from, memories.Question{Text: p.Query, Limit: int(p.MaxResults), Score: p.MinScore})
	if err != nil {
		return memorySearchResult{}, err
	}
	r := memorySearchResult{
		Results: make([]memoryHit, len(answer.Hits)), TotalMatches: answer.Total, Files: answer.Files,
		FilesSkipped: answer.Skipped,
	}
	for i, h := range answer.Hits {
		snippet, cut := clip.Runes(strings.TrimRight(h.Text, "\r\n"), d.Limits.Memory.SnippetRunes)
		if cut {
			snippet += text.Cut
		}
		r.Results[i] = memoryHit{Path: h.Name, From: h.From, To: h.To, Score: h.Score, Snippet: snippet}
	}
	return r, nil
}

type memoryGetParams struct {
	Path  string     `json:"path" doc:"The file: MEMORY.md or one below memory/."`
	From  schema.Int `json:"from,omitempty" default:"1" min:"1" doc:"Line to start from; the first line is 1."`
	Lines schema.Int `json:"lines,omitempty" default:"2000" min:"1" doc:"How many lines to return at most."`
}

type memoryGetResult struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	TotalLines int    `json:"total_lines"`
	Truncated  bool   `json:"truncated"`
	NextFrom   *int   `json:"next_from,omitempty" doc:"Where to go on, if truncated."`
}

func memoryGet(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[memoryGetParams, memoryGetResult]{
		Name: "memory.get", Description: memoryGetText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		Requires: []tool.Requirement{tool.ReadPath("path", tool.CallerPath)},
		Needs:    func(p *memoryGetParams) []tool.Requirement { return []tool.Requirement{tool.ReadPath("path", p.Path)} },
		Aliases: []tool.Alias{tool.AliasOf("memory_get", memoryGetText,
			func(p memoryGetParams) memoryGetParams { return p })},
		Limits: []tool.Limit{
			tool.InBytes("read_bytes", d.Limits.ReadBytes, "of one answer"),
			tool.InNumber("read_line_chars", d.Limits.LineRunes, "characters of one line"),
			tool.InBytes("read_file_bytes", d.Limits.ReadFile, "of the largest file that is read"),
		},
		Run: d.getMemory,
	})
}

// getMemory reads lines of a note as file.read does, and records it as read.
func (d Deps) getMemory(ctx context.Context, call *tool.Call, p *memoryGetParams) (memoryGetResult, error) {
	path := call.Paths[0]
	if !memories.Holds(call.Space, path) {
		return memoryGetResult{}, fault.New(fault.InvalidParams,
			"%s is outside the memory, which is %s and the files below %s/; read it with file.read.",
			path.Show, memories.File, memories.Folder).With("field", "path").With("path", path.Show)
	}
	if path.Exists && path.Mode.IsDir() {
		return memoryGetResult{}, path.NotRegular()
	}
	r, err := d.readFile(ctx, call, &fileReadParams{Path: p.Path, Offset: p.From, Limit: p.Lines})
	if err != nil {
		return memoryGetResult{}, err
	}
	if r.Content == nil || r.Type != "file" {
		return memoryGetResult{}, fault.New(fault.FileNotText, "%s is binary; notes are text.", path.Show).With("path",
			path.Show)
	}
	return memoryGetResult{
		Path: r.Path, Content: *r.Content, TotalLines: *r.TotalLines, Truncated: *r.Truncated,
		NextFrom: r.NextOffset,
	}, nil
}

package tools

import (
	"cmp"
	"container/heap"
	"context"
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/walk"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed search_glob.md
var searchGlobText string

type searchGlobParams struct {
	Pattern string `json:"pattern" doc:"Glob pattern, such as **/*.go."`
	Path    string `json:"path,omitempty" default:"." doc:"Folder to search. Default: the project's root."`
}

type searchGlobResult struct {
	Files     []string `json:"files"`
	Count     int      `json:"count"`
	Truncated bool     `json:"truncated"`
}

func searchGlob(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[searchGlobParams, searchGlobResult]{
		Name: "search.glob", Description: searchGlobText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		OwnTimeout: true,
		Requires:   []tool.Requirement{tool.SearchPath("path", tool.CallerPath)},
		Needs: func(p *searchGlobParams) []tool.Requirement {
			return []tool.Requirement{tool.SearchPath("path", p.Path)}
		},
		Aliases: []tool.Alias{
			tool.AliasOf("glob", searchGlobText, func(p searchGlobParams) searchGlobParams { return p }),
		},
		Limits: []tool.Limit{
			tool.InTime("search_timeout", d.Limits.Search.Timeout, "of one search; what was found until then is the answer"),
			tool.InNumber("glob_files", d.Limits.Search.GlobFiles, "files of one answer"),
		},
		Run: d.glob,
	})
}

// glob finds files by name below a folder. It leaves out files outside the caller's cage.
func (d Deps) glob(ctx context.Context, call *tool.Call, p *searchGlobParams) (searchGlobResult, error) {
	start := call.Paths[0]
	if !start.Exists || !start.Mode.IsDir() {
		return searchGlobResult{}, notFolder(start)
	}
	pattern, err := globBelow(p.Pattern)
	if err != nil {
		return searchGlobResult{}, err
	}
	uncaged := call.Access.Uncaged()
	want := func(folder paths.Path, name string) bool {
		return doublestar.MatchUnvalidated(pattern, below(start, folder, name)) &&
			(uncaged || call.Access.Allows(path.Join(folder.Abs(), name), false))
	}
	found := &newest{limit: d.Limits.Search.GlobFiles}
	bounded, cancel := context.WithTimeout(ctx, d.Limits.Search.Timeout)
	defer cancel()
	err = walk.Files(bounded, start, d.walkOptions(call, start, want), found.visit)
	late := ranOut(ctx, err)
	if err != nil && !late {
		return searchGlobResult{}, err
	}
	return found.result(late), nil
}

// globBelow returns a pattern in the form that matches paths relative to the searched folder.
func globBelow(pattern string) (string, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	switch {
	case pattern == "":
		return "", fault.New(fault.InvalidParams, "The pattern is empty.").With("field", "pattern")
	case strings.HasPrefix(pattern, "/"), slices.Contains(strings.Split(pattern, "/"), ".."):
		return "",
			fault.New(fault.InvalidParams, "The pattern %q leaves the folder that is searched; put the folder into path.",
				pattern).
				With("field", "pattern")
	}
	return pattern, checkGlob("pattern", pattern)
}

// aged is a file with its modification time.
type aged struct {
	show    string
	changed int64
}

// order compares files: the newest first, files with the same time in the order of their paths.
func (a aged) order(b aged) int {
	return cmp.Or(cmp.Compare(b.changed, a.changed), strings.Compare(a.show, b.show))
}

// newest keeps the most recently changed files.
type newest struct {
	limit int

	mu      sync.Mutex // guards the fields below
	files   oldestFirst
	dropped bool
}

func (n *newest) visit(_ context.Context, folder *walk.Folder, names []string) {
	for _, name := range names {
		info, err := folder.Stat(name)
		if err != nil {
			continue // the file was removed meanwhile
		}
		if n.wants(info.ModTime) {
			n.add(aged{strings.ToValidUTF8(folder.Path.Join(name).Show, "\uFFFD"), info.ModTime})
		}
	}
}

// wants reports whether a file with this time may be among the newest. For most files in a large tree no path has to be
// built.
func (n *newest) wants(changed int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.files) < n.limit || changed >= n.files[0].changed {
		return true
	}
	n.dropped = true
	return false
}

func (n *newest) add(file aged) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.files) == n.limit {
		n.dropped = true
		if n.files[0].order(file) < 0 {
			return
		}
		heap.Pop(&n.files)
	}
	heap.Push(&n.files, file)
}

func (n *newest) result(late bool) searchGlobResult {
	slices.SortFunc(n.files, aged.order)
	r := searchGlobResult{Files: make([]string, len(n.files)), Count: len(n.files), Truncated: late || n.dropped}
	for i, f := range n.files {
		r.Files[i] = f.show
	}
	return r
}

// oldestFirst is a heap with the last file of the order on top.
type oldestFirst []aged

func (h oldestFirst) Len() int           { return len(h) }
func (h oldestFirst) Less(i, j int) bool { return h[i].order(h[j]) > 0 }
func (h oldestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *oldestFirst) Push(x any)        { *h = append(*h, x.(aged)) }
func (h *oldestFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

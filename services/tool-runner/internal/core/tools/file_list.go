package tools

import (
	"context"
	_ "embed"
	"io/fs"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed file_list.md
var fileListText string

type fileListParams struct {
	Path string `json:"path,omitempty" default:"." doc:"Folder to list. Default: the project's root."`
}

type flatListParams struct {
	Path string `json:"path" doc:"Folder to list, relative to the project."`
}

type fileListResult struct {
	Path      string     `json:"path"`
	Entries   []dirEntry `json:"entries"`
	Count     int        `json:"count"`
	Truncated bool       `json:"truncated"`
}

type dirEntry struct {
	Name string `json:"name"`
	Type string `json:"type" enum:"file,dir,link,other"`
	Size int64  `json:"size"`
}

func fileList(d Deps) *tool.Entry {
	flat := func(p flatListParams) fileListParams { return fileListParams(p) }
	return tool.Define(tool.Spec[fileListParams, fileListResult]{
		Name: "file.list", Description: fileListText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		Requires: []tool.Requirement{tool.ReadPath("path", tool.CallerPath)},
		Needs:    func(p *fileListParams) []tool.Requirement { return []tool.Requirement{tool.ReadPath("path", p.Path)} },
		Aliases: []tool.Alias{
			tool.AliasOf("ls", fileListText, flat),
			tool.AliasOf("list_directory", fileListText, flat),
		},
		Limits: []tool.Limit{tool.InNumber("list_entries", d.Limits.ListEntries, "entries of one answer")},
		Run:    d.listFolder,
	})
}

// listFolder returns the entries of a folder in the order of their names.
func (d Deps) listFolder(ctx context.Context, call *tool.Call, _ *fileListParams) (fileListResult, error) {
	path := call.Paths[0]
	f, info, err := path.Open()
	if err != nil {
		return fileListResult{}, err
	}
	defer f.Close()
	if !info.IsDir() {
		return fileListResult{}, fault.New(fault.InvalidParams, "%s is a file; file.read reads it.", path.Show).
			With("field", "path").With("path", path.Show)
	}
	names, err := call.Space.Entries(path, f)
	if err != nil {
		return fileListResult{}, path.Failure("listed", err)
	}
	result := fileListResult{Path: path.Show, Entries: []dirEntry{}, Truncated: len(names) > d.Limits.ListEntries}
	for _, e := range names[:min(len(names), d.Limits.ListEntries)] {
		if err := ctx.Err(); err != nil {
			return fileListResult{}, err
		}
		info, err := paths.Stat(f, e.Name())
		if err != nil {
			continue // the entry was removed meanwhile
		}
		result.Entries = append(result.Entries, dirEntry{
			strings.ToValidUTF8(e.Name(), "\uFFFD"), typeOf(info.Mode), info.Size,
		})
	}
	result.Count = len(result.Entries)
	return result, nil
}

func typeOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

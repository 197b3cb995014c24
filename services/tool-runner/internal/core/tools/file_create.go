package tools

import (
	"context"
	_ "embed"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed file_create.md
var fileCreateText string

func fileCreate(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[fileWriteParams, fileWriteResult]{
		Name: "file.create", Description: fileCreateText, Category: tool.Write,
		Requires: []tool.Requirement{tool.ChangePath("path", tool.CallerPath)},
		Needs:    changesPath,
		Preview:  d.previewCreate,
		Run:      d.createFile,
		After:    func(ctx context.Context, call *tool.Call, r *fileWriteResult) { r.Diagnostics = d.newErrors(ctx, call) },
	})
}

// createFile creates a file, which must not exist yet.
func (d Deps) createFile(_ context.Context, call *tool.Call, p *fileWriteParams) (fileWriteResult, error) {
	path, content := call.Paths[0], []byte(p.Content)
	if err := d.unredacted(change.Change{At: path, Data: content}); err != nil {
		return fileWriteResult{}, err
	}
	d.Images.Keep(call.From, path)
	if err := d.Files.Create(path, content); err != nil {
		return fileWriteResult{}, err
	}
	return d.written(call, path, content, edit.DiffTexts(path.Show, "", p.Content, d.Limits.DiffBytes), true), nil
}

// previewCreate returns the change that the creation of a file makes.
func (d Deps) previewCreate(_ context.Context, call *tool.Call, p *fileWriteParams) (string, error) {
	path := call.Paths[0]
	if path.Exists {
		return "", change.Taken(path)
	}
	return edit.DiffTexts(path.Show, "", p.Content, d.Limits.DiffBytes), nil
}

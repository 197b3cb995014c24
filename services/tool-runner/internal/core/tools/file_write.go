package tools

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"io"

	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/edit"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed file_write.md
var fileWriteText string

type fileWriteParams struct {
	Path    string `json:"path" doc:"Project-relative path."`
	Content string `json:"content" doc:"The whole content of the file."`
}

type fileWriteResult struct {
	Path         string `json:"path"`
	BytesWritten int    `json:"bytes_written"`
	Created      bool   `json:"created" doc:"Whether the file is new."`
	Diff         string `json:"diff"`
}

func changesPath(p *fileWriteParams) []tool.Requirement {
	return []tool.Requirement{tool.ChangePath("path", p.Path)}
}

func fileWrite(d Deps) *tool.Entry {
	same := func(p fileWriteParams) fileWriteParams { return p }
	return tool.Define(tool.Spec[fileWriteParams, fileWriteResult]{
		Name: "file.write", Description: fileWriteText, Category: tool.Write,
		Requires: []tool.Requirement{tool.ChangePath("path", tool.CallerPath)},
		Needs:    changesPath,
		Aliases: []tool.Alias{
			tool.AliasOf("write", fileWriteText, same),
			tool.AliasOf("write_file", fileWriteText, same),
		},
		Limits: []tool.Limit{
			tool.InBytes("diff_bytes", d.Limits.DiffBytes, "of the diff in the answer"),
			tool.InBytes("edit_file_bytes", d.Limits.EditFile, "of the largest file that is shown in a diff"),
		},
		Preview: d.previewWrite,
		Run:     d.writeFile,
	})
}

// writeFile replaces a file its caller has seen as it is, or makes a new one.
func (d Deps) writeFile(ctx context.Context, call *tool.Call, p *fileWriteParams) (fileWriteResult, error) {
	path := call.Paths[0]
	if !path.Exists {
		return d.createFile(ctx, call, p)
	}
	diff, err := d.previewWrite(ctx, call, p)
	if err != nil {
		return fileWriteResult{}, err
	}
	content := []byte(p.Content)
	if err := path.Replace(content); err != nil {
		return fileWriteResult{}, err
	}
	return d.written(call, path, content, diff, false), nil
}

// previewWrite returns the change that writing a file is, "" for a file too large to show one.
func (d Deps) previewWrite(ctx context.Context, call *tool.Call, p *fileWriteParams) (string, error) {
	path := call.Paths[0]
	if !path.Exists {
		return edit.DiffTexts(path.Show, "", p.Content, d.Limits.DiffBytes), nil
	}
	before, whole, err := d.seen(ctx, call, path)
	if err != nil || !whole {
		return "", err
	}
	return edit.DiffTexts(path.Show, before, p.Content, d.Limits.DiffBytes), nil
}

// seen returns the content of a file, if its caller has read it as it is now. Of a file too large to show a diff of it is
// enough to know that: its content comes back cut and whole is false.
func (d Deps) seen(ctx context.Context, call *tool.Call, path paths.Path) (content string, whole bool, err error) {
	f, info, err := path.OpenFile()
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	if info.Size() > d.Limits.ReadFile {
		return "", false, tooLarge(path, d.Limits.ReadFile)
	}
	sum := sha256.New()
	source := io.TeeReader(f, sum)
	head, err := io.ReadAll(io.LimitReader(source, int64(d.Limits.EditFile)+1))
	if err == nil {
		err = copyTo(ctx, io.Discard, source)
	}
	if err != nil {
		return "", false, path.Failure("read", err)
	}
	return string(head), len(head) <= d.Limits.EditFile, d.check(call, path, hashFrom(sum))
}

// written records that a file has this content now, and answers so.
func (d Deps) written(call *tool.Call, path paths.Path, content []byte, diff string, created bool) fileWriteResult {
	d.saw(call, path, sha256.Sum256(content))
	call.Record(audit.FileWritten, map[string]any{"path": path.Show, "bytes": len(content)})
	return fileWriteResult{Path: path.Show, BytesWritten: len(content), Created: created, Diff: diff}
}

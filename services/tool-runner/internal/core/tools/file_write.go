package tools

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"strings"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/reads"
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

	Diagnostics *[]lspDiagnostic `json:"diagnostics,omitempty" doc:"New errors of the files, where a server runs."`
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
		After:   func(ctx context.Context, call *tool.Call, r *fileWriteResult) { r.Diagnostics = d.newErrors(ctx, call) },
	})
}

// writeFile replaces a file that the caller has read in its present state, or creates a new file.
func (d Deps) writeFile(ctx context.Context, call *tool.Call, p *fileWriteParams) (fileWriteResult, error) {
	path := call.Paths[0]
	before, err := d.seen(ctx, call, path)
	if errors.Is(err, fault.FileNotFound) {
		result, failed := d.createFile(ctx, call, p)
		if !errors.Is(failed, fault.FileExists) {
			return result, failed
		}
		// Another writer created the file meanwhile, so the call overwrites it.
		before, err = d.seen(ctx, call, path)
	}
	if err != nil {
		return fileWriteResult{}, err
	}
	content := before.form.take(p.Content)
	if err := d.apply(call, change.Change{At: path, Was: before.was, Data: content}); err != nil {
		return fileWriteResult{}, err
	}
	return d.written(call, path, content, d.diffTo(before, content), false), nil
}

// previewWrite returns the change that the write of a file makes, "" for a file too large for a diff.
func (d Deps) previewWrite(ctx context.Context, call *tool.Call, p *fileWriteParams) (string, error) {
	before, err := d.seen(ctx, call, call.Paths[0])
	if errors.Is(err, fault.FileNotFound) {
		return edit.DiffTexts(call.Paths[0].Show, "", p.Content, d.Limits.DiffBytes), nil
	}
	if err != nil {
		return "", err
	}
	return d.diffTo(before, before.form.take(p.Content)), nil
}

// diffTo returns the change from a file to new content, "" for a file too large for a diff.
func (d Deps) diffTo(before *overwritten, content []byte) string {
	if !before.whole {
		return ""
	}
	after, _, _ := text.Decode(content)
	return edit.DiffTexts(before.path.Show, before.text, after, d.Limits.DiffBytes)
}

// overwritten is a file to overwrite.
type overwritten struct {
	path paths.Path
	was  change.Version
	// text is the file's content. whole is false if the content is too large for a diff, and cut.
	text  string
	whole bool
	form  form
}

// form is the stored form of a text: properties that new content does not express, because its writer did not see them.
type form struct {
	encoding text.Encoding
	crlf     bool // every line ends in \r\n
}

// take converts new content to the form. Content with a \r has its own line ends, which are kept.
func (f form) take(content string) []byte {
	if f.crlf && !strings.Contains(content, "\r") {
		content = strings.ReplaceAll(content, "\n", "\r\n")
	}
	if f.encoding != text.UTF8 {
		content = strings.TrimPrefix(content, "\uFEFF")
	}
	return text.Encode(content, f.encoding)
}

// seen returns the file at a path, if the caller has read it in its present state.
func (d Deps) seen(ctx context.Context, call *tool.Call, path paths.Path) (*overwritten, error) {
	f, info, err := path.OpenFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	was := change.VersionOf(info)
	if was.Size > d.Limits.ReadFile {
		return nil, tooLarge(path, d.Limits.ReadFile)
	}
	sum := reads.NewSumming()
	source := io.TeeReader(io.LimitReader(f, was.Size), sum)
	head, err := io.ReadAll(io.LimitReader(source, int64(d.Limits.EditFile)+1))
	if err == nil {
		err = copyTo(ctx, io.Discard, source)
	}
	if err != nil {
		return nil, path.Failure("read", err)
	}
	o := &overwritten{path: path, was: was, whole: len(head) <= d.Limits.EditFile}
	if binary, _ := text.Binary(head[:min(len(head), text.HeadSize)], d.Sniff); !binary {
		var ok bool
		if o.text, o.form.encoding, ok = text.Decode(head); !ok && o.whole {
			o.form.encoding = text.UTF8
		}
		breaks := strings.Count(o.text, "\n")
		o.form.crlf = breaks > 0 && breaks == strings.Count(o.text, "\r\n")
	}
	return o, d.check(call, path, sum.Sum())
}

// written records the new content of a file, and returns the answer.
func (d Deps) written(call *tool.Call, path paths.Path, content []byte, diff string, created bool) fileWriteResult {
	d.saw(call, path, reads.Sum(content))
	call.Changed = append(call.Changed, path)
	call.Record(audit.FileWritten, map[string]any{
		"path": path.Show, "bytes": len(content), "sha256": sha256Of(content),
	})
	return fileWriteResult{Path: path.Show, BytesWritten: len(content), Created: created, Diff: diff}
}

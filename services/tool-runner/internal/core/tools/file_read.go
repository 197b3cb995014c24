package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed file_read.md
var fileReadText string

type fileReadParams struct {
	Path   string     `json:"path" doc:"Project-relative path to read."`
	Offset schema.Int `json:"offset,omitempty" default:"1" min:"1" doc:"Line to start from; the first line is 1."`
	Limit  schema.Int `json:"limit,omitempty" default:"2000" min:"1" doc:"How many lines to return at most."`

	flat *flatPage // set by the alias read
}

// flatPage is the page form of the alias read: pages have a size in bytes, offsets count from 0, and the text ends with
// a notice if more follows.
type flatPage struct{ bytes int }

type flatReadParams struct {
	Path   string     `json:"path" doc:"Path of the file, relative to the project."`
	Offset schema.Int `json:"offset,omitempty" default:"0" min:"0" doc:"Line to start from; the first line is 0."`
	Limit  schema.Int `json:"limit,omitempty" min:"1" doc:"How many lines to return at most. Default: a page of 50 KB."`
}

type fileReadResult struct {
	Path       string  `json:"path"`
	Type       string  `json:"type" enum:"file,directory,binary"`
	Content    *string `json:"content,omitempty"`
	TotalLines *int    `json:"total_lines,omitempty"`
	Truncated  *bool   `json:"truncated,omitempty"`
	NextOffset *int    `json:"next_offset,omitempty" doc:"Where to go on, if truncated."`
	Size       *int64  `json:"size,omitempty" doc:"Of a binary file, in bytes."`
	MIME       string  `json:"mime,omitempty" doc:"Of a binary file."`
}

func fileRead(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[fileReadParams, fileReadResult]{
		Name: "file.read", Description: fileReadText, Category: tool.Read, DefaultRoot: true, Parallel: true,
		Requires: []tool.Requirement{tool.ReadPath("path", tool.CallerPath)},
		Needs:    func(p *fileReadParams) []tool.Requirement { return []tool.Requirement{tool.ReadPath("path", p.Path)} },
		Aliases: []tool.Alias{
			tool.AliasOf("read", "Read a file with line numbers. offset counts from 0. Without limit a page of 50 KB is "+
				"returned; the text says where to go on.", d.flatRead),
			tool.AliasOf("read_file", fileReadText, func(p fileReadParams) fileReadParams { return p }),
		},
		Limits: []tool.Limit{
			tool.InBytes("read_bytes", d.Limits.ReadBytes, "of one answer"),
			tool.InBytes("read_page_bytes", d.Limits.PageBytes, "of one page of the alias read"),
			tool.InNumber("read_line_chars", d.Limits.LineRunes, "characters of one line"),
			tool.InBytes("read_file_bytes", d.Limits.ReadFile, "of the largest file that is read"),
		},
		Run: d.readFile,
	})
}

func (d Deps) flatRead(p flatReadParams) fileReadParams {
	q := fileReadParams{Path: p.Path, Offset: p.Offset + 1, Limit: p.Limit, flat: &flatPage{d.Limits.PageBytes}}
	if p.Limit > 0 {
		q.flat.bytes = d.Limits.ReadBytes
	}
	return q
}

// readFile returns lines, a listing or a description, depending on the kind of file at the path.
func (d Deps) readFile(ctx context.Context, call *tool.Call, p *fileReadParams) (fileReadResult, error) {
	path := call.Paths[0]
	f, info, err := path.Open()
	if err != nil {
		return fileReadResult{}, err
	}
	defer f.Close()
	window := d.window(p)
	if info.IsDir() {
		err := list(call.Space, path, f, window)
		return p.answer(path, "directory", window), path.Failure("listed", err)
	}
	if info.Size() > d.Limits.ReadFile {
		return fileReadResult{}, tooLarge(path, d.Limits.ReadFile)
	}
	// A growing file is read to the length that it has now. A file without a known size is read to its end.
	size := info.Size()
	if size == 0 {
		size = d.Limits.ReadFile
	}
	whole := &io.LimitedReader{R: f, N: size}
	sum := reads.NewSumming()
	named := sha256.New()
	var source io.Reader = io.TeeReader(whole, io.MultiWriter(sum, named))
	head, err := headOf(source, info.Size())
	if err != nil {
		return fileReadResult{}, path.Failure("read", err)
	}
	binary, mime := text.Binary(head, d.Sniff)
	var dst io.Writer = window
	if binary {
		dst = io.Discard
	} else {
		source = text.NewReader(head, io.MultiReader(bytes.NewReader(head), source))
	}
	if err := copyTo(ctx, dst, source); err != nil {
		return fileReadResult{}, path.Failure("read", err)
	}
	d.saw(call, path, sum.Sum())
	call.Record(audit.FileRead, map[string]any{"path": path.Show, "sha256": hex.EncodeToString(named.Sum(nil))})
	if binary {
		size -= whole.N
		return fileReadResult{Path: path.Show, Type: "binary", Size: &size, MIME: mime}, nil
	}
	window.Finish()
	return p.answer(path, "file", window), nil
}

// headOf reads the beginning of a file of the given size, enough to determine its kind.
func headOf(r io.Reader, size int64) ([]byte, error) {
	// One byte more than the size makes the read reach the end of the file, so that no further read is needed.
	head := make([]byte, min(size+1, text.HeadSize))
	n, err := io.ReadFull(r, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// window returns the window for the parameters.
func (d Deps) window(p *fileReadParams) *text.Window {
	w := &text.Window{From: int(p.Offset), Lines: int(p.Limit), Bytes: d.Limits.ReadBytes, Runes: d.Limits.LineRunes}
	if p.flat != nil {
		w.Bytes = p.flat.bytes
	}
	return w
}

// list writes a folder's entries to the window, one per line, in the order of their names.
func list(space *paths.Space, folder paths.Path, f *os.File, window *text.Window) error {
	entries, err := space.Entries(folder, f)
	if err != nil {
		return err
	}
	window.Plain = true
	for _, e := range entries {
		end := "\n"
		if e.IsDir() {
			end = "/\n"
		}
		io.WriteString(window, text.Name(e.Name())+end)
	}
	window.Finish()
	return nil
}

func (p *fileReadParams) answer(path paths.Path, kind string, window *text.Window) fileReadResult {
	content, total, next := window.Content(), window.Total(), window.Next()
	truncated := next > 0
	result := fileReadResult{Path: path.Show, Type: kind, Content: &content, TotalLines: &total, Truncated: &truncated}
	if !truncated {
		return result
	}
	if p.flat != nil {
		next--
		content += fmt.Sprintf("\n[truncated: continue with offset %d]", next)
	}
	result.NextOffset = &next
	return result
}

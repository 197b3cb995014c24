package tools

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"io"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/edit"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/text"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed edit_text.md
var editTextText string

type editTextParams struct {
	Path       string `json:"path" doc:"Project-relative path."`
	OldString  string `json:"old_string" doc:"Exact text to find."`
	NewString  string `json:"new_string" doc:"Replacement text; must differ from old_string."`
	ReplaceAll bool   `json:"replace_all,omitempty" default:"false" doc:"Replace all occurrences."`
}

type flatEditParams struct {
	Path    string `json:"path" doc:"Path of the file, relative to the project."`
	OldText string `json:"old_text" doc:"Exact text to find; it must occur once."`
	NewText string `json:"new_text" doc:"Replacement text."`
}

type editTextResult struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	Diff         string `json:"diff"`
}

func editText(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[editTextParams, editTextResult]{
		Name: "edit.text", Description: editTextText, Category: tool.Write,
		Requires: []tool.Requirement{tool.ChangePath("path", tool.CallerPath)},
		Needs:    func(p *editTextParams) []tool.Requirement { return []tool.Requirement{tool.ChangePath("path", p.Path)} },
		Aliases: []tool.Alias{
			tool.AliasOf("edit", "Replace old_text, which must occur exactly once in the file, by new_text. Read the file before.",
				func(p flatEditParams) editTextParams {
					return editTextParams{Path: p.Path, OldString: p.OldText, NewString: p.NewText}
				}),
		},
		Limits: []tool.Limit{
			tool.InBytes("edit_file_bytes", d.Limits.EditFile, "of the largest file that is edited"),
			tool.InBytes("diff_bytes", d.Limits.DiffBytes, "of the diff in the answer"),
		},
		Preview: func(ctx context.Context, call *tool.Call, p *editTextParams) (string, error) {
			e, err := d.planEdit(ctx, call, p)
			return e.diff, err
		},
		Run: d.editFile,
	})
}

// editFile replaces text in a file its caller has seen as it is.
func (d Deps) editFile(ctx context.Context, call *tool.Call, p *editTextParams) (editTextResult, error) {
	path := call.Paths[0]
	plan, err := d.planEdit(ctx, call, p)
	if err != nil {
		return editTextResult{}, err
	}
	if err := path.Replace(plan.after); err != nil {
		return editTextResult{}, err
	}
	d.saw(call, path, sha256.Sum256(plan.after))
	call.Record(audit.FileEdited, map[string]any{"path": path.Show, "replacements": plan.replacements})
	return editTextResult{path.Show, plan.replacements, plan.diff}, nil
}

// textEdit is a replacement that was not made yet.
type textEdit struct {
	after        []byte
	replacements int
	diff         string
}

// planEdit finds out what an edit would change, and fails where it would.
func (d Deps) planEdit(ctx context.Context, call *tool.Call, p *editTextParams) (textEdit, error) {
	path := call.Paths[0]
	if p.OldString == p.NewString {
		return textEdit{}, fault.New(fault.NoChange, "old_string and new_string are the same.").With("path", path.Show)
	}
	data, err := d.load(ctx, path)
	if err != nil {
		return textEdit{}, err
	}
	if err := d.check(call, path, sha256.Sum256(data)); err != nil {
		return textEdit{}, err
	}
	before, encoding, ok := text.Decode(data)
	if binary, _ := text.Binary(data[:min(len(data), text.HeadSize)], d.Sniff); binary || !ok {
		return textEdit{}, fault.New(fault.FileNotText, "%s is not a text file and cannot be edited.", path.Show).With("path", path.Show)
	}
	changes, err := edit.Replace(before, p.OldString, p.NewString, p.ReplaceAll)
	if err != nil {
		return textEdit{}, fault.From(err).With("path", path.Show)
	}
	return textEdit{
		after: text.Encode(edit.Apply(before, changes), encoding), replacements: len(changes),
		diff: edit.Diff(path.Show, before, changes, d.Limits.DiffBytes),
	}, nil
}

// load returns the whole content of a file that is to be edited.
func (d Deps) load(ctx context.Context, path paths.Path) ([]byte, error) {
	f, info, err := path.OpenFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := int64(d.Limits.EditFile)
	if info.Size() > limit {
		return nil, tooLarge(path, limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		return nil, tooLarge(path, limit)
	}
	return data, path.Failure("read", err)
}

package tools

import (
	"context"
	_ "embed"

	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
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

	Diagnostics *[]lspDiagnostic `json:"diagnostics,omitempty" doc:"New errors of the files, where a server runs."`
}

func editText(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[editTextParams, editTextResult]{
		Name: "edit.text", Description: editTextText, Category: tool.Write,
		Requires: []tool.Requirement{tool.ChangePath("path", tool.CallerPath)},
		Needs:    func(p *editTextParams) []tool.Requirement { return []tool.Requirement{tool.ChangePath("path", p.Path)} },
		Aliases: []tool.Alias{
			tool.AliasOf("edit", "Replace old_text, which must occur exactly once in the file, by new_text. Read the file "+
				"before.",
				func(p flatEditParams) editTextParams {
					return editTextParams{Path: p.Path, OldString: p.OldText, NewString: p.NewText}
				}),
		},
		Limits: []tool.Limit{
			tool.InBytes("edit_file_bytes", d.Limits.EditFile, "of the largest file that is edited"),
			tool.InBytes("diff_bytes", d.Limits.DiffBytes, "of the diff in the answer"),
		},
		Preview: func(ctx context.Context, call *tool.Call, p *editTextParams) (string, error) {
			plan, err := d.planEdit(ctx, call, p)
			if err != nil {
				return "", err
			}
			return d.diff(plan), nil
		},
		Run:   d.editFile,
		After: func(ctx context.Context, call *tool.Call, r *editTextResult) { r.Diagnostics = d.newErrors(ctx, call) },
	})
}

// editFile replaces text in a file that the caller has read in its present state.
func (d Deps) editFile(ctx context.Context, call *tool.Call, p *editTextParams) (editTextResult, error) {
	path := call.Paths[0]
	plan, err := d.planEdit(ctx, call, p)
	if err != nil {
		return editTextResult{}, err
	}
	sum, err := d.replace(call, plan.doc, edit.Apply(plan.doc.text, plan.changes))
	if err != nil {
		return editTextResult{}, err
	}
	call.Record(audit.FileEdited, map[string]any{
		"path": path.Show, "replacements": len(plan.changes), "sha256": sum,
	})
	return editTextResult{Path: path.Show, Replacements: len(plan.changes), Diff: d.diff(plan)}, nil
}

// textEdit is a planned replacement.
type textEdit struct {
	doc     *document
	changes []edit.Change
}

// diff returns the changes of an edit.
func (d Deps) diff(plan textEdit) string {
	return edit.Diff(plan.doc.path.Show, plan.doc.text, plan.changes, d.Limits.DiffBytes)
}

// planEdit computes the changes of an edit, and fails with the errors of the edit.
func (d Deps) planEdit(ctx context.Context, call *tool.Call, p *editTextParams) (textEdit, error) {
	path := call.Paths[0]
	if p.OldString == p.NewString {
		return textEdit{}, fault.New(fault.NoChange, "old_string and new_string are the same.").With("path", path.Show)
	}
	doc, err := d.open(ctx, call, path)
	if err != nil {
		return textEdit{}, err
	}
	changes, err := edit.Replace(doc.text, p.OldString, p.NewString, p.ReplaceAll)
	if err != nil {
		return textEdit{}, fault.From(unfound(err, p.OldString)).With("path", path.Show)
	}
	size := len(doc.text)
	for _, c := range changes {
		size += len(c.Text) - (c.End - c.Start)
	}
	if limit := d.Limits.EditFile; size > limit {
		return textEdit{}, fault.New(fault.FileTooLarge, "%s would be larger than %d bytes.", path.Show, limit).
			With("path", path.Show).With("limit_bytes", limit)
	}
	return textEdit{doc, changes}, nil
}

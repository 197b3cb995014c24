package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/edit"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// lspRename renames a symbol or moves a file, completely or not at all. If a file changes between the server's answer
// and the hold of its path, the server is asked once more.
func (d Deps) lspRename(ctx context.Context, call *tool.Call, p *codeLspParams) (codeLspResult, error) {
	if p.Apply && !mayWrite(call) {
		return codeLspResult{}, fault.New(fault.CapabilityDenied,
			"The agent has no tool that changes files, so %s changes none either; apply: false shows the changes.", p.Action).
			With("required", "tool:edit.text")
	}
	q, err := d.lspQuery(ctx, call, p)
	if err != nil {
		return codeLspResult{}, err
	}
	if p.Action == "rename_file" {
		if q.NewName = call.Paths[1].Abs(); call.Paths[1].Exists {
			return codeLspResult{}, change.Taken(call.Paths[1])
		}
	}
	for try := 0; ; try++ {
		a, err := d.ask(ctx, call, q)
		if err != nil {
			return codeLspResult{}, err
		}
		result, err := d.lspEdit(ctx, call, p, a)
		if try > 0 || !errors.Is(err, fault.FileChangedSinceRead) {
			return result, err
		}
	}
}

// mayWrite reports whether the caller has a tool that changes files.
func mayWrite(call *tool.Call) bool {
	for _, name := range call.From.Tools {
		if strings.HasPrefix(name, "edit.") || name == "file.write" || strings.HasPrefix(name, "shell.") {
			return true
		}
	}
	return false
}

// renaming is a planned workspace edit of one file.
type renaming struct {
	edit contract.FileEdit
	path paths.Path
	to   *paths.Path
}

// lspEdit makes the edits of an answer, or shows them.
func (d Deps) lspEdit(
	ctx context.Context, call *tool.Call, p *codeLspParams, a language.Answer,
) (codeLspResult, error) {
	plan, err := lspPlan(call, a.Edits)
	if err != nil {
		return codeLspResult{}, err
	}
	if p.Apply {
		var held []paths.Path
		for _, r := range plan {
			held = append(held, r.path)
			if r.to != nil {
				held = append(held, *r.to)
			}
		}
		release, err := call.Hold(ctx, held...)
		if err != nil {
			return codeLspResult{}, err
		}
		defer release()
	}
	list, changes, diff, err := d.lspChanges(ctx, plan)
	if err != nil {
		return codeLspResult{}, err
	}
	total := 0
	for _, c := range list {
		total += c.Edits
	}
	files := len(list)
	result := codeLspResult{
		Completeness: completenessOf(a.Completeness), Changes: &list, TotalEdits: &total, FilesChanged: &files,
		Applied: &p.Apply, Diff: diff,
	}
	if !p.Apply {
		return result, nil
	}
	if err := d.applyKept(call, changes...); err != nil {
		return codeLspResult{}, err
	}
	for i, r := range plan {
		if r.edit.Content != nil {
			at := r.path
			if r.to != nil {
				at = *r.to
			}
			d.saw(call, at, reads.Sum(r.edit.Content))
		}
		record := p.record(list[i])
		if r.edit.Content != nil {
			record["sha256"] = sha256Of(r.edit.Content)
		}
		call.Record(audit.FileEdited, record)
	}
	return result, nil
}

// lspPlan resolves the files of an edit. If the caller may not write some of them, it fails with
// rename_scope_exceeds_cage and their names.
func lspPlan(call *tool.Call, edits []contract.FileEdit) ([]renaming, error) {
	var plan []renaming
	var outside []string
	writable := func(abs string) (paths.Path, bool) {
		path, err := call.Space.Resolve("path", abs)
		if err != nil {
			return path, false
		}
		named := call.Paths[0].Abs() == path.Abs() || len(call.Paths) > 1 && call.Paths[1].Abs() == path.Abs()
		return call.Changing(path), path.Abs() == abs && call.Access.Allows(abs, true) && (named || !call.System(abs))
	}
	for _, e := range edits {
		path, ok := writable(e.Path)
		r := renaming{edit: e, path: path}
		if ok && e.MovedTo != "" {
			var to paths.Path
			if to, ok = writable(e.MovedTo); ok {
				r.to = &to
			}
		}
		if !ok {
			show := e.Path
			if path.Show != "" {
				show = path.Show
			}
			outside = append(outside, show)
			continue
		}
		plan = append(plan, r)
	}
	if len(outside) > 0 {
		shown := outside[:min(len(outside), 50)]
		return nil, fault.New(fault.RenameScopeExceedsCage,
			"The rename would change %d files that the agent may not write, so none was changed: %s.",
			len(outside), strings.Join(shown, ", ")).With("paths", shown).With("count", len(outside))
	}
	return plan, nil
}

// lspChanges compares the files with the content that the server has, and returns the changes with a diff.
func (d Deps) lspChanges(ctx context.Context, plan []renaming) ([]lspChange, []change.Change, string, error) {
	list := []lspChange{}
	var changes []change.Change
	var diffs strings.Builder
	for _, r := range plan {
		c := change.Change{At: r.path, Data: r.edit.Content, Remove: r.edit.Removed, Move: r.to}
		shown := lspChange{Path: r.path.Show, Edits: r.edit.Edits, Removed: r.edit.Removed}
		before := ""
		if r.edit.SHA256 != "" {
			data, was, err := d.load(ctx, r.path)
			if err != nil {
				return nil, nil, "", err
			}
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != r.edit.SHA256 {
				return nil, nil, "", fault.New(fault.FileChangedSinceRead, "%s changed while the rename was made; try again.",
					r.path.Show).With("path", r.path.Show)
			}
			c.Was = was
			before, _, _ = text.Decode(data)
		}
		if r.to != nil {
			shown.MovedTo = r.to.Show
		}
		if r.edit.Content != nil {
			after, _, _ := text.Decode(r.edit.Content)
			diffs.WriteString(edit.DiffTexts(r.path.Show, before, after, max(0, d.Limits.DiffBytes-diffs.Len())))
		}
		list, changes = append(list, shown), append(changes, c)
	}
	return list, changes, diffs.String(), nil
}

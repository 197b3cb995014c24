package core

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// Types that are also sent to other services.
type (
	FileEdit    = contract.FileEdit
	CodeAction  = contract.CodeAction
	Replacement = contract.Replacement
)

func (r *running) rename(ctx context.Context, q Query, a *Answer) error {
	if !r.client.Provides("renameProvider", "textDocument/rename") {
		return fault.New(fault.RenameNotPossible, "This language server cannot rename.")
	}
	doc, err := r.openAt(q)
	if err != nil {
		return err
	}
	if r.preparesRename() {
		var raw json.RawMessage
		if err := r.client.At(ctx, "textDocument/prepareRename", doc, q.At, nil, &raw); err != nil {
			return err
		}
		if text := strings.TrimSpace(string(raw)); text == "" || text == "null" {
			return fault.New(fault.RenameNotPossible, "Nothing at this place can be renamed.")
		}
	}
	var raw json.RawMessage
	if err := r.client.At(ctx, "textDocument/rename", doc, q.At, map[string]any{"newName": q.NewName}, &raw); err != nil {
		return err
	}
	a.Edits, err = r.edits(raw)
	if err == nil && len(a.Edits) == 0 {
		return fault.New(fault.RenameNotPossible, "The language server names no place that the rename would change.")
	}
	return err
}

func (r *running) preparesRename() bool {
	var announced struct {
		RenameProvider struct {
			PrepareProvider bool `json:"prepareProvider"`
		} `json:"renameProvider"`
	}
	_ = json.Unmarshal(r.client.Capabilities(), &announced) // renameProvider may be a boolean
	return announced.RenameProvider.PrepareProvider
}

func (r *running) moveFile(ctx context.Context, q Query, a *Answer) error {
	doc, err := r.open(q)
	if err != nil {
		return err
	}
	if strings.Contains(string(r.client.Capabilities()), "willRename") {
		params := map[string]any{"files": []any{map[string]string{"oldUri": lsp.URI(q.Path), "newUri": lsp.URI(q.NewName)}}}
		var raw json.RawMessage
		if err := r.client.Call(ctx, "workspace/willRenameFiles", params, &raw); err != nil {
			return err
		}
		if a.Edits, err = r.edits(raw); err != nil {
			return err
		}
	} else {
		a.partial("This language server changes no imports when a file moves; check those that name it.")
	}
	// Edits that name the file by its new path are edits of this file too.
	var list []FileEdit
	moved := FileEdit{Path: q.Path, MovedTo: q.NewName, SHA256: hexOf(doc.Sum)}
	for _, e := range a.Edits {
		if e.Path == q.Path || e.Path == q.NewName {
			moved.Content, moved.Edits = e.Content, e.Edits
			continue
		}
		list = append(list, e)
	}
	a.Edits = append(list, moved)
	return nil
}

// edits returns the files of a workspace edit with their new content.
func (r *running) edits(raw json.RawMessage) ([]FileEdit, error) {
	operations, err := lsp.ParseWorkspaceEdit(raw)
	if err != nil {
		return nil, err
	}
	if err := r.inside(operations); err != nil {
		return nil, err
	}
	made := map[string]*draft{}
	at := func(path string) (*draft, error) {
		if c := made[path]; c != nil {
			return c, nil
		}
		c := &draft{FileEdit: FileEdit{Path: path}}
		made[path] = c
		data, _, err := (files{r.root}).Read(path, maxText)
		switch {
		case errors.Is(err, fault.FileNotFound):
		case err != nil:
			return nil, err
		default:
			c.SHA256, c.text = hexOf(sha256.Sum256(data)), string(data)
		}
		return c, nil
	}
	total := 0
	for _, op := range operations {
		c, err := at(op.Path)
		if err != nil {
			return nil, err
		}
		switch op.Kind {
		case lsp.DeleteFile:
			c.Removed = true
		case lsp.CreateFile:
			c.Content = []byte{}
		case lsp.RenameFile:
			c.MovedTo = op.To
		case lsp.EditFile:
			if c.SHA256 == "" && c.Content == nil {
				return nil, fault.New(fault.RenameNotPossible,
					"The language server would change %s, which is gone: it has not noticed that yet. Try again.",
					filepath.Base(op.Path))
			}
			text, err := lsp.NewText(strings.TrimPrefix(c.text, "\uFEFF")).Apply(op.Edits, r.client.Encoding())
			if err != nil {
				return nil, fault.Wrap(err, fault.RenameNotPossible, "The language server's edits of %s cannot be made: %v.",
					filepath.Base(op.Path), err)
			}
			if strings.HasPrefix(c.text, "\uFEFF") {
				text = "\uFEFF" + text
			}
			if len(op.Edits) > 0 {
				c.text, c.Content, c.Edits = text, []byte(text), c.Edits+len(op.Edits)
				total += len(text)
			}
		}
	}
	if total > maxEdits {
		return nil, fault.New(fault.RenameNotPossible, "The rename rewrites %d bytes of files; at most %d are taken.", total,
			maxEdits)
	}
	var list []FileEdit
	for _, path := range slices.Sorted(maps.Keys(made)) {
		if c := made[path]; c.Content != nil || c.MovedTo != "" || c.Removed {
			list = append(list, c.FileEdit)
		}
	}
	return list, nil
}

// inside fails with rename_scope_exceeds_cage and the names of the files outside the root, if there are any: the pool
// does not read them, so it cannot make edits of them.
func (r *running) inside(operations []lsp.Operation) error {
	outside := map[string]bool{}
	for _, op := range operations {
		for _, path := range []string{op.Path, op.To} {
			if path != "" && !paths.Below(path, r.root.Path()) {
				outside[path] = true
			}
		}
	}
	if len(outside) == 0 {
		return nil
	}
	list := slices.Sorted(maps.Keys(outside))
	shown := list[:min(len(list), 50)]
	return fault.New(fault.RenameScopeExceedsCage,
		"The rename would change %d files outside the project, so none was changed: %s.", len(list),
		strings.Join(shown, ", ")).With("paths", shown).With("count", len(list))
}

// maxEdits is the maximum size of the new content in one answer, well below the limit of a message between services.
const maxEdits = 12 << 20

// draft is a FileEdit in progress, with the present text.
type draft struct {
	FileEdit
	text string
}

func (r *running) codeActions(ctx context.Context, q Query, a *Answer) error {
	if !r.client.Provides("codeActionProvider", "textDocument/codeAction") {
		return unsupported("code actions")
	}
	doc, found, err := r.client.DiagnoseForFixes(ctx, q.Path)
	if errors.Is(err, lsp.ErrSilent) {
		a.partial("The language server says nothing about the present content; fixes are those of an earlier one.")
		err = nil
	}
	if err == nil {
		err = contains(doc, q.At)
	}
	if err != nil {
		return err
	}
	at := r.client.Native(doc.Text, q.At)
	about := []lsp.Diagnostic{}
	if q.IncludeDiagnostics {
		for _, d := range found {
			if d.Range.Start.Line <= at.Line && at.Line <= d.Range.End.Line {
				about = append(about, d)
			}
		}
	}
	reasons := map[string]any{"diagnostics": about, "triggerKind": 1}
	if !q.IncludeDiagnostics {
		reasons["only"] = []string{"refactor", "source"}
	}
	params := map[string]any{"textDocument": map[string]string{"uri": lsp.URI(q.Path)}, "range": lsp.Range{
		Start: at,
		End:   at,
	}, "context": reasons}
	if len(about) > 0 {
		params["range"] = about[0].Range
	}
	var raw json.RawMessage
	if err := r.client.Call(ctx, "textDocument/codeAction", params, &raw); err != nil {
		return err
	}
	actions, err := lsp.ParseActions(raw)
	if err != nil {
		return err
	}
	left := 0
	for _, action := range actions {
		if action.Disabled != "" || !q.IncludeDiagnostics && strings.HasPrefix(action.Kind, "quickfix") {
			continue
		}
		made, ok := r.resolve(ctx, action)
		if !ok {
			left++
			continue
		}
		a.Actions = append(a.Actions, made)
	}
	if left > 0 {
		a.partial("%d actions are left out: they are commands of the language server's, which kaged does not run.", left)
	}
	return nil
}

// resolve returns an action with its edits, and whether it has any.
func (r *running) resolve(ctx context.Context, action lsp.Action) (CodeAction, bool) {
	out := CodeAction{Title: action.Title, Kind: action.Kind, Preferred: action.Preferred}
	if action.Edit == nil {
		var resolved struct {
			Edit json.RawMessage `json:"edit"`
		}
		if action.Command || r.client.Call(ctx, "codeAction/resolve", action.Raw, &resolved) != nil || resolved.Edit == nil {
			return out, false
		}
		action.Edit = resolved.Edit
	}
	operations, err := lsp.ParseWorkspaceEdit(action.Edit)
	if err != nil {
		return out, false
	}
	for _, op := range operations {
		if op.Kind != lsp.EditFile || !paths.Below(op.Path, r.root.Path()) {
			return out, false
		}
		data, _, err := (files{r.root}).Read(op.Path, maxText)
		if err != nil {
			return out, false
		}
		text := lsp.NewText(strings.TrimPrefix(string(data), "\uFEFF"))
		for _, e := range op.Edits {
			out.Edits = append(out.Edits, r.replacement(op.Path, text, e))
		}
	}
	return out, len(out.Edits) > 0
}

// replacement returns an edit as an old text that occurs exactly once in the file and its new text, so that edit.text
// can make it. The old text is the edited text itself if it is unique; otherwise it is extended to whole lines, and by
// as many further lines as necessary.
func (r *running) replacement(path string, text *lsp.Text, e lsp.TextEdit) Replacement {
	all := text.String()
	start, end := text.Offset(e.Range.Start, r.client.Encoding()), text.Offset(e.Range.End, r.client.Encoding())
	end = max(start, end)
	from, to := start, end
	for grow := 0; grow < 64 && (from == to || strings.Count(all, all[from:to]) > 1); grow++ {
		if at := strings.LastIndexByte(all[:max(from-1, 0)], '\n'); grow%2 == 0 || to == len(all) {
			from = at + 1
		}
		if grow%2 == 1 || grow == 0 {
			if at := strings.IndexByte(all[min(to+1, len(all)):], '\n'); at >= 0 {
				to = min(to+1, len(all)) + at
			} else {
				to = len(all)
			}
		}
		if from == 0 && to == len(all) {
			break
		}
	}
	return Replacement{
		Path: path, Line: int(text.Position(from, lsp.UTF16).Line), Old: all[from:to],
		New: all[from:start] + e.NewText + all[end:to],
	}
}

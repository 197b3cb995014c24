package tools

import (
	"cmp"
	"context"
	_ "embed"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/parallel"
	"kaged.dev/pkg/patch"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed edit_patch.md
var editPatchText string

type editPatchParams struct {
	Patch string `json:"patch" doc:"The patch, from *** Begin Patch to *** End Patch. Paths in it are project-relative."`

	read   bool // parsed and err are set
	parsed *patch.Patch
	err    error
}

type editPatchResult struct {
	Files []patchedFile `json:"files" doc:"In the order of the patch."`

	Diagnostics *[]lspDiagnostic `json:"diagnostics,omitempty" doc:"New errors of the files, where a server runs."`
}

type patchedFile struct {
	Path    string   `json:"path"`
	Action  string   `json:"action" enum:"added,updated,moved,deleted"`
	MovedTo string   `json:"moved_to,omitempty"`
	Hunks   int      `json:"hunks"`
	Added   int      `json:"added" doc:"Lines."`
	Removed int      `json:"removed" doc:"Lines."`
	Notes   []string `json:"notes,omitempty" doc:"Hunks that fit only with tolerance."`
	Diff    string   `json:"diff"`
}

func editPatch(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[editPatchParams, editPatchResult]{
		Name: "edit.patch", Description: editPatchText, Category: tool.Write,
		Requires: []tool.Requirement{tool.ChangePath("patch", tool.CallerPath)},
		Needs:    d.patchNeeds,
		Aliases: []tool.Alias{
			tool.AliasOf("apply_patch", editPatchText, func(p editPatchParams) editPatchParams { return p }),
		},
		Limits: []tool.Limit{
			tool.InNumber("patch_files", d.Limits.PatchFiles, "of sections in a patch"),
			tool.InBytes("patch_total_bytes", d.Limits.PatchBytes, "read for one patch"),
			tool.InBytes("edit_file_bytes", d.Limits.EditFile, "of the largest file that is edited"),
			tool.InBytes("diff_bytes", d.Limits.DiffBytes, "of the diffs in the answer"),
		},
		Preview: d.previewPatch,
		Run:     d.patchFiles,
		After:   func(ctx context.Context, call *tool.Call, r *editPatchResult) { r.Diagnostics = d.newErrors(ctx, call) },
	})
}

// parse parses the patch at its first call; later calls return the same answer.
func (d Deps) parse(p *editPatchParams) (*patch.Patch, error) {
	if p.read {
		return p.parsed, p.err
	}
	p.read = true
	p.parsed, p.err = patch.Parse(p.Patch)
	if p.err == nil && len(p.parsed.Sections) > d.Limits.PatchFiles {
		p.err = fault.New(fault.PatchInvalid, "The patch has %d sections; at most %d are taken at once.",
			len(p.parsed.Sections), d.Limits.PatchFiles).
			With("limit", d.Limits.PatchFiles).With("line", p.parsed.Sections[d.Limits.PatchFiles].Line)
	}
	return p.parsed, p.err
}

// patchNeeds returns a requirement for each path of a patch, in the patch's order. For an unreadable patch it returns
// none: the call fails before it changes anything.
func (d Deps) patchNeeds(p *editPatchParams) []tool.Requirement {
	parsed, err := d.parse(p)
	if err != nil {
		return nil
	}
	var needs []tool.Requirement
	for _, s := range parsed.Sections {
		needs = append(needs, tool.ChangePath("patch", s.Path))
		if s.MoveTo != "" {
			needs = append(needs, tool.ChangePath("patch", s.MoveTo))
		}
	}
	return needs
}

// patchFiles applies a patch completely or not at all.
func (d Deps) patchFiles(ctx context.Context, call *tool.Call, p *editPatchParams) (editPatchResult, error) {
	w, err := d.planPatch(ctx, call, p)
	if err != nil {
		return editPatchResult{}, unfound(err, p.Patch)
	}
	var sums map[string]string
	hashed := parallel.Go(func() { sums = w.sums() }) // takes as long as the writing
	err = d.apply(call, w.changes...)
	hashed()
	if err != nil {
		return editPatchResult{}, err
	}
	for _, f := range w.files {
		switch {
		case f.now == nil:
		case f.now.data != nil:
			d.saw(call, f.path, f.now.hash)
			call.Changed = append(call.Changed, f.path)
		case f.now.from != f:
			d.saw(call, f.path, f.now.from.hash)
		}
	}
	for i, r := range w.results {
		if r.Action == "added" {
			call.Record(audit.FileWritten, map[string]any{
				"path": r.Path, "bytes": len(w.sections[i].Content), "sha256": sums[r.Path],
			})
			continue
		}
		fields := map[string]any{"path": r.Path, "replacements": r.Hunks, "action": r.Action}
		if r.MovedTo != "" {
			fields["moved_to"] = r.MovedTo
		}
		if sum := sums[cmp.Or(r.MovedTo, r.Path)]; sum != "" {
			fields["sha256"] = sum
		}
		call.Record(audit.FileEdited, fields)
	}
	w.release()
	return editPatchResult{Files: w.results}, nil
}

// previewPatch returns the changes a patch would make.
func (d Deps) previewPatch(ctx context.Context, call *tool.Call, p *editPatchParams) (string, error) {
	w, err := d.planPatch(ctx, call, p)
	if err != nil {
		return "", err
	}
	var diffs strings.Builder
	for _, r := range w.results {
		diffs.WriteString(r.Diff)
	}
	return diffs.String(), nil
}

// sums returns the SHA-256 of the new contents by the paths of their files.
func (w *planned) sums() map[string]string {
	sums := map[string]string{}
	for _, f := range w.files {
		if f.now != nil && f.now.data != nil {
			sums[f.path.Show] = sha256Of(f.now.data)
		}
	}
	return sums
}

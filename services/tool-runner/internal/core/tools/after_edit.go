package tools

import (
	"context"

	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

const (
	// afterEditFiles is the maximum number of changed files that are checked after a call, afterEditErrors the maximum
	// number of errors in the answer.
	afterEditFiles  = 20
	afterEditErrors = 50
)

// newErrors returns the errors of the files changed by a call, without those already reported to the agent after an
// earlier edit. It returns nil if no language server runs for the files, if the server does not answer in time, and if
// the operator switched the errors off: the change has succeeded in each case.
func (d Deps) newErrors(ctx context.Context, call *tool.Call) *[]lspDiagnostic {
	if d.Limits.AfterEdit <= 0 || len(call.Changed) == 0 || len(call.Changed) > afterEditFiles {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.Limits.AfterEdit)
	defer cancel()
	q := d.lspCaller(call)
	q.Action, q.Path, q.Severity = language.WarmDiagnostics, call.Space.Root(), 1
	q.TimeoutMS = d.Limits.AfterEdit.Milliseconds()
	view := &lspView{call, map[string]*lspFile{}}
	for _, path := range call.Changed {
		q.Files = append(q.Files, path.Abs())
		view.files[path.Abs()] = &lspFile{show: path.Show}
	}
	a, err := d.Languages.Ask(ctx, q)
	for _, r := range a.Records {
		call.Records = append(call.Records, call.From.Record(r.Type, r.Payload))
	}
	if err != nil || a.Completeness.State == "" || a.Completeness.State == "indexing" {
		return nil
	}
	fresh := d.Told.New(call.From.SessionID, call.From.Agent, q.Files, a.Diagnostics)
	if a.Completeness.State == "partial" && len(fresh) == 0 {
		return nil // the errors are unknown, which differs from no errors
	}
	list := []lspDiagnostic{}
	for _, found := range fresh[:min(len(fresh), afterEditErrors)] {
		list = append(list, view.diagnostic(found))
	}
	return &list
}

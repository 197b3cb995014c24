package server

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/core"
	"kaged.dev/services/lsp-pool/internal/lsp"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

var actions = map[lsppoolv1.Action]core.Action{
	lsppoolv1.Action_ACTION_DIAGNOSTICS: core.Diagnostics, lsppoolv1.Action_ACTION_DEFINITION: core.Definition,
	lsppoolv1.Action_ACTION_REFERENCES: core.References, lsppoolv1.Action_ACTION_SYMBOLS: core.Symbols,
	lsppoolv1.Action_ACTION_RENAME:      core.Rename,
	lsppoolv1.Action_ACTION_RENAME_FILE: core.MoveFile, lsppoolv1.Action_ACTION_CODE_ACTIONS: core.CodeActions,
	lsppoolv1.Action_ACTION_HOVER:           core.Hover,
	lsppoolv1.Action_ACTION_TYPE_DEFINITION: core.TypeDefinition,
	lsppoolv1.Action_ACTION_IMPLEMENTATION:  core.Implementation,
	lsppoolv1.Action_ACTION_CAPABILITIES:    core.Capabilities, lsppoolv1.Action_ACTION_REQUEST: core.Request,
	lsppoolv1.Action_ACTION_WARM_DIAGNOSTICS: core.WarmDiagnostics,
}

// maxServers is the maximum number of servers that a project may declare.
const maxServers = 32

func viewFromProto(p *lsppoolv1.View) (core.View, error) {
	v := core.View{
		ProjectID: p.GetProjectId(), Root: p.GetRoot(), SessionID: p.GetSessionId(),
		Cage: dsl.CageFromProto(p.GetCage()), NoCommands: p.GetNoCommands(), ProjectCaged: p.GetProjectCaged(),
		Declared: dsl.LanguageServersFromProto(p.GetServers()),
	}
	if len(v.Declared) > maxServers || slices.ContainsFunc(v.Declared, func(s dsl.LanguageServer) bool {
		return len(s.Command) == 0 || s.Command[0] == ""
	}) {
		return v, fault.New(fault.BadRequest, "A declared language server has no command, or there are more than %d.",
			maxServers)
	}
	return v, nil
}

// filterFromProto returns the servers that a request selects.
func filterFromProto(project, root, lang string, view *lsppoolv1.View) (core.Filter, error) {
	f := core.Filter{ProjectID: project, Root: root, Lang: lang}
	if view == nil {
		return f, nil
	}
	v, err := viewFromProto(view)
	v.SessionID = "" // crashes are counted per session, but servers do not depend on it
	f.View = &v
	return f, err
}

func queryFromProto(p *lsppoolv1.QueryRequest) (core.Query, error) {
	view, err := viewFromProto(p.GetView())
	if err != nil {
		return core.Query{}, err
	}
	q := core.Query{
		View:   view,
		Action: actions[p.GetAction()], Path: p.GetPath(), Lang: p.GetLang(), At: lsp.Position{
			Line:      p.GetLine(),
			Character: p.GetCharacter(),
		},
		IncludeDeclaration: p.GetIncludeDeclaration(), Search: p.GetQuery(), Limit: int(p.GetLimit()),
		NewName:            p.GetNewName(),
		IncludeDiagnostics: p.GetIncludeDiagnostics(), Method: p.GetMethod(), Params: json.RawMessage(p.GetParams()),
		Severity: int(p.GetSeverity()),
		Files:    p.GetFiles(), Wait: time.Duration(p.GetWaitMs()) * time.Millisecond,
		Timeout: time.Duration(p.GetTimeoutMs()) * time.Millisecond,
	}
	for _, c := range p.GetChanged() {
		kind := lsp.Changed
		if c.GetRemoved() {
			kind = lsp.Deleted
		}
		q.Changed = append(q.Changed, lsp.Change{Path: c.GetPath(), Kind: kind})
	}
	switch {
	case q.Action == 0:
		return q, fault.New(fault.BadRequest, "A query needs an action.")
	case !filepath.IsAbs(q.View.Root) || !filepath.IsAbs(q.Path):
		return q, fault.New(fault.BadRequest, "A query needs absolute paths.")
	case len(q.Params) > 0 && !json.Valid(q.Params):
		return q, fault.New(fault.InvalidParams, "params is no JSON.").With("field", "params")
	case p.GetWaitMs() < 0 || p.GetTimeoutMs() < 0:
		return q, fault.New(fault.BadRequest, "A query has a negative time.")
	}
	return q, nil
}

func answerToProto(a core.Answer) *lsppoolv1.QueryResponse {
	p := &lsppoolv1.QueryResponse{
		Completeness: &lsppoolv1.Completeness{
			State: a.Completeness.State, Percent: int32(a.Completeness.Percent), Reason: a.Completeness.Reason,
		},
		Json: strings.ToValidUTF8(a.JSON, "\uFFFD"), Records: contract.RecordsProto(a.Records),
	}
	for _, l := range a.Locations {
		p.Locations = append(p.Locations, locationToProto(l.Range, l.Path))
	}
	for _, s := range a.Symbols {
		p.Symbols = append(p.Symbols, &lsppoolv1.Symbol{
			Name: s.Name, Kind: s.KindText(), Container: s.Container, Location: locationToProto(s.Range, s.Path),
		})
	}
	for _, d := range a.Diagnostics {
		p.Diagnostics = append(p.Diagnostics, &lsppoolv1.Diagnostic{
			Location: locationToProto(d.Range, d.Path), Severity: int32(d.Severity), Message: d.Message, Code: d.CodeText(),
			Source: d.Source,
		})
	}
	if a.Hover != nil {
		p.Hover = &lsppoolv1.Hover{Content: a.Hover.Content, Documentation: a.Hover.Documentation}
		if a.Hover.Range != nil {
			p.Hover.Location = locationToProto(*a.Hover.Range, "")
		}
	}
	for _, e := range a.Edits {
		p.Edits = append(p.Edits, fileEdit(e))
	}
	for _, action := range a.Actions {
		p.Actions = append(p.Actions, codeAction(action))
	}
	return p
}

//convert:one locationToProto(path string) lsp.Range *lsppoolv1.Location >Path=valid(path)
//convert:one placeToProto lsp.Position *lsppoolv1.Place
//convert:one fileEdit contract.FileEdit *lsppoolv1.FileEdit >string=valid
//convert:one codeAction contract.CodeAction *lsppoolv1.CodeAction >string=valid
//convert:one replacement contract.Replacement *lsppoolv1.Replacement >string=valid

// valid returns text as valid UTF-8, which messages require.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

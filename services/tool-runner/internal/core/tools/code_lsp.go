package tools

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed code_lsp.md
var codeLspText string

type codeLspParams struct {
	Action             string      `json:"action" enum:"diagnostics,definition,references,symbols,rename,rename_file,code_actions,hover,type_definition,implementation,status,reload,capabilities,request" doc:"What to ask."`
	Path               string      `json:"path,omitempty" doc:"File; a folder for diagnostics. Required but for status and reload."`
	Line               *schema.Int `json:"line,omitempty" min:"1" doc:"Line, from 1."`
	Character          *schema.Int `json:"character,omitempty" min:"0" doc:"Column, from 0, in UTF-16 units."`
	Symbol             string      `json:"symbol,omitempty" doc:"Instead of character: text of the line, such as Total or Total#2."`
	NewName            string      `json:"new_name,omitempty" doc:"New name, for rename."`
	NewPath            string      `json:"new_path,omitempty" doc:"New path, for rename_file."`
	Apply              bool        `json:"apply,omitempty" default:"true" doc:"Whether rename and rename_file change files, or only show what would change."`
	Severity           string      `json:"severity,omitempty" enum:"error,warning,information,hint,all" default:"all" doc:"Least grave diagnostic to return."`
	IncludeDeclaration bool        `json:"include_declaration,omitempty" doc:"Whether references include the declaration."`
	IncludeDiagnostics bool        `json:"include_diagnostics,omitempty" default:"true" doc:"Whether code_actions include fixes of diagnostics."`
	Scope              string      `json:"scope,omitempty" enum:"document,workspace" default:"document" doc:"Symbols of the file or of the project."`
	Query              string      `json:"query,omitempty" doc:"Name to look for, for the scope workspace."`
	Limit              schema.Int  `json:"limit,omitempty" default:"50" min:"1" doc:"How many symbols at most."`
	Lang               string      `json:"lang,omitempty" doc:"Language. Default: that of the file's extension."`
	Method             string      `json:"method,omitempty" doc:"Method of the protocol, for request."`
	Params             string      `json:"params,omitempty" doc:"Its parameters as JSON text; uris are file:// and absolute, positions count from 0."`
	Wait               schema.Int  `json:"wait,omitempty" min:"0" doc:"Milliseconds to wait for a server that is loading."`
}

type codeLspResult struct {
	Completeness *lspCompleteness `json:"completeness,omitempty"`

	Path        string           `json:"path,omitempty"`
	Diagnostics *[]lspDiagnostic `json:"diagnostics,omitempty"`
	Definitions *[]lspPlace      `json:"definitions,omitempty"`
	References  *[]lspPlace      `json:"references,omitempty"`
	Symbols     *[]lspSymbol     `json:"symbols,omitempty"`
	Actions     *[]lspAction     `json:"actions,omitempty"`
	Count       *int             `json:"count,omitempty"`

	Content       *string   `json:"content,omitempty"`
	Documentation *string   `json:"documentation,omitempty"`
	Range         *lspRange `json:"range,omitempty"`

	Changes      *[]lspChange `json:"changes,omitempty"`
	TotalEdits   *int         `json:"total_edits,omitempty"`
	FilesChanged *int         `json:"files_changed,omitempty"`
	Applied      *bool        `json:"applied,omitempty"`
	Diff         string       `json:"diff,omitempty"`

	Servers *[]lspServer `json:"servers,omitempty"`
	JSON    string       `json:"json,omitempty" doc:"Capabilities, or the answer to request, as JSON text."`
}

type lspCompleteness struct {
	State   string `json:"state" enum:"ready,indexing,partial,restarted"`
	Percent int    `json:"percent" doc:"From 0 to 100; -1 for unknown."`
	Reason  string `json:"reason"`
}

type lspPlace struct {
	Path        string  `json:"path"`
	Line        int     `json:"line"`
	Character   int     `json:"character"`
	Preview     *string `json:"preview,omitempty"`
	OutsideCage bool    `json:"outside_cage,omitempty"`
}

type lspDiagnostic struct {
	Path         string `json:"path"`
	Line         int    `json:"line"`
	Character    int    `json:"character"`
	EndLine      int    `json:"end_line"`
	EndCharacter int    `json:"end_character"`
	Severity     string `json:"severity" enum:"error,warning,information,hint"`
	Message      string `json:"message"`
	Code         string `json:"code"`
	Source       string `json:"source"`
}

type lspSymbol struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Container   string `json:"container,omitempty"`
	Path        string `json:"path"`
	Line        int    `json:"line"`
	Character   int    `json:"character"`
	OutsideCage bool   `json:"outside_cage,omitempty"`
}

type lspAction struct {
	Title     string    `json:"title"`
	Kind      string    `json:"kind"`
	Preferred bool      `json:"preferred"`
	Edits     []lspEdit `json:"edits" doc:"For edit.text: old is there once."`
}

type lspEdit struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

type lspRange struct {
	Start lspPoint `json:"start"`
	End   lspPoint `json:"end"`
}

type lspPoint struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type lspChange struct {
	Path    string `json:"path"`
	Edits   int    `json:"edits"`
	MovedTo string `json:"moved_to,omitempty"`
	Removed bool   `json:"removed,omitempty"`
}

type lspServer struct {
	Lang         string `json:"lang"`
	Command      string `json:"command"`
	State        string `json:"state" enum:"starting,indexing,ready,stopped,failed"`
	PID          int64  `json:"pid"`
	RestartCount int    `json:"restart_count"`
	OpenFiles    int    `json:"open_files"`
}

// lspLooks are the read-only actions.
var lspLooks = []string{
	"diagnostics", "definition", "references", "symbols", "code_actions", "hover", "type_definition", "implementation",
	"status", "reload",
	"capabilities", "request",
}

// lspPlaced are the actions that need a position.
var lspPlaced = []string{
	"definition", "references", "rename", "code_actions", "hover", "type_definition",
	"implementation",
}

// changes reports whether the call changes files.
func (p *codeLspParams) changes() bool {
	return (p.Action == "rename" || p.Action == "rename_file") && p.Apply
}

func codeLsp(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[codeLspParams, codeLspResult]{
		Name: "code.lsp", Description: codeLspText, Category: tool.Write, DefaultRoot: true, Parallel: true, OwnTimeout: true,
		ReadWhen: toolcall.When{{{Parameter: "action", Values: lspLooks}}},
		WaitWhen: toolcall.When{{{Parameter: "wait"}}, {{Parameter: "action", Values: []string{"status"}}}},
		Requires: []tool.Requirement{tool.ReadPath("path", tool.CallerPath)},
		Needs: func(p *codeLspParams) []tool.Requirement {
			switch {
			case p.Path == "":
				return []tool.Requirement{tool.SearchPath("path", ".")}
			case p.Action == "rename_file" && p.Apply:
				return []tool.Requirement{tool.ChangePath("path", p.Path), tool.ChangePath("new_path", p.NewPath)}
			case p.Action == "rename_file":
				return []tool.Requirement{tool.ReadPath("path", p.Path), tool.ReadPath("new_path", p.NewPath)}
			case p.changes():
				return []tool.Requirement{tool.ChangePath("path", p.Path)}
			case p.Action == "diagnostics", p.Action == "symbols" && p.Scope == "workspace", p.Action == "status",
				p.Action == "reload":
				return []tool.Requirement{tool.SearchPath("path", p.Path)}
			}
			return []tool.Requirement{tool.ReadPath("path", p.Path)}
		},
		Effect: func(p *codeLspParams) tool.Effect {
			if p.changes() {
				return tool.Effect{Category: tool.Write}
			}
			return tool.Effect{Category: tool.Read}
		},
		Preview: func(ctx context.Context, call *tool.Call, p *codeLspParams) (string, error) {
			if !p.changes() {
				return "", nil
			}
			shown := *p
			shown.Apply = false
			result, err := d.askLsp(ctx, call, &shown)
			return result.Diff, err
		},
		Limits: []tool.Limit{
			tool.InBytes("edit_file_bytes", d.Limits.EditFile, "of the largest file that a rename changes"),
			tool.InBytes("diff_bytes", d.Limits.DiffBytes, "of the diff in the answer"),
		},
		Run: d.askLsp,
	})
}

// missing returns the error of a call that lacks a required parameter.
func (p *codeLspParams) missing() error {
	lacks := func(field string) error {
		return fault.New(fault.InvalidParams, "%s is required for the action %s.", field, p.Action).With("field", field)
	}
	switch {
	case p.Path == "" && p.Action != "status" && p.Action != "reload" && !(p.Action == "symbols" &&
		p.Scope == "workspace" && p.Lang != ""):
		return lacks("path")
	case slices.Contains(lspPlaced, p.Action) && p.Line == nil && p.Symbol != "":
		return fault.New(fault.InvalidParams, "line is required for the action %s: symbol is a text of that line. To look "+
			"for a name in the project, use the action symbols with the scope workspace.", p.Action).With("field", "line")
	case slices.Contains(lspPlaced, p.Action) && p.Line == nil:
		return lacks("line")
	case slices.Contains(lspPlaced, p.Action) && p.Character == nil && p.Symbol == "":
		return lacks("character")
	case p.Action == "rename" && p.NewName == "":
		return lacks("new_name")
	case p.Action == "rename_file" && p.NewPath == "":
		return lacks("new_path")
	case p.Action == "symbols" && p.Scope == "workspace" && p.Query == "":
		return lacks("query")
	case p.Action == "request" && p.Method == "":
		return lacks("method")
	}
	return nil
}

// askLsp answers a call.
func (d Deps) askLsp(ctx context.Context, call *tool.Call, p *codeLspParams) (codeLspResult, error) {
	if err := p.missing(); err != nil {
		return codeLspResult{}, err
	}
	switch p.Action {
	case "status", "reload":
		return d.lspServers(ctx, call, p)
	case "rename", "rename_file":
		return d.lspRename(ctx, call, p)
	}
	q, err := d.lspQuery(ctx, call, p)
	if err != nil {
		return codeLspResult{}, err
	}
	a, err := d.ask(ctx, call, q)
	if err != nil {
		return codeLspResult{}, err
	}
	return d.lspAnswer(call, p, a), nil
}

// lspCaller returns a query with a call's caller and no action.
func (d Deps) lspCaller(call *tool.Call) language.Query {
	q := language.Query{
		ProjectID: call.From.ProjectID, Root: call.Space.Root(), SessionID: call.From.SessionID,
		Declared: call.From.LanguageServers,
	}
	if !d.NoSandbox {
		q.Cage, q.ProjectCaged = call.From.Cage, call.From.ProjectCaged
		// With approve: writes, an operator approves each command. A server without a cage would run commands unapproved.
		q.NoCommands = call.From.ApproveWrites || !slices.ContainsFunc(call.From.Tools, func(name string) bool {
			return strings.HasPrefix(name, "shell.")
		})
	}
	return q
}

// severities are the severities of diagnostics, the most severe first.
var severities = []string{"error", "warning", "information", "hint"}

// lspQuery returns the query for a call.
func (d Deps) lspQuery(ctx context.Context, call *tool.Call, p *codeLspParams) (language.Query, error) {
	q := d.lspCaller(call)
	q.Action, q.Path, q.Lang = language.Action(p.Action), call.Space.Root(), p.Lang
	q.IncludeDeclaration, q.IncludeDiagnostics = p.IncludeDeclaration, p.IncludeDiagnostics
	q.Limit, q.NewName, q.Method, q.WaitMS = int(p.Limit), p.NewName, p.Method, int64(p.Wait)
	q.Severity = slices.Index(severities, p.Severity) + 1
	if p.Scope == "workspace" {
		q.Search = p.Query
	}
	if p.Action == "request" {
		q.Params = cmp.Or(p.Params, "{}")
		if !json.Valid([]byte(q.Params)) {
			return q, fault.New(fault.InvalidParams, "params is no JSON text.").With("field", "params")
		}
	}
	if len(call.Paths) == 0 {
		return q, nil
	}
	path := call.Paths[0]
	q.Path, q.Files = path.Abs(), []string{path.Abs()}
	if !path.Exists {
		return q, notThere(path)
	}
	if slices.Contains(lspPlaced, p.Action) {
		at, err := d.lspPlace(ctx, call, p)
		if err != nil {
			return q, err
		}
		q.At = at
	}
	if path.Mode.IsDir() {
		if p.Action != "diagnostics" && !(p.Action == "symbols" && q.Search != "" && q.Lang != "") {
			return q, fault.New(fault.FileNotRegular, "%s is a folder; the action %s is about a file.", path.Show,
				p.Action).With("path", path.Show)
		}
		files, err := d.lspFiles(ctx, call)
		if err != nil {
			return q, err
		}
		q.Files = files
	}
	return q, nil
}

// ask sends a query to the servers. A failure that the model can act on, such as an unreachable pool, becomes a result.
func (d Deps) ask(ctx context.Context, call *tool.Call, q language.Query) (language.Answer, error) {
	a, err := d.Languages.Ask(ctx, q)
	for _, r := range a.Records {
		call.Records = append(call.Records, call.From.Record(r.Type, r.Payload))
	}
	return a, lspFailure(ctx, err)
}

// lspFailure returns the error of the call for a failed query.
func lspFailure(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	f := fault.From(err)
	switch f.Code {
	case fault.Internal, fault.BadRequest:
		return tool.Infrastructure(err)
	case fault.Unavailable:
		return fault.Wrap(err, fault.LspServerUnavailable,
			"The language servers cannot be reached; the other tools work without them.")
	}
	return f
}

// lspServers answers the actions status and reload, which concern the servers that the caller shares.
func (d Deps) lspServers(ctx context.Context, call *tool.Call, p *codeLspParams) (codeLspResult, error) {
	ask := d.Languages.List
	if p.Action == "reload" {
		ask = d.Languages.Stop
	}
	caller := d.lspCaller(call)
	list, err := ask(ctx, language.Filter{Root: call.Space.Root(), Lang: p.Lang, Caller: &caller})
	if err != nil {
		return codeLspResult{}, lspFailure(ctx, err)
	}
	servers := []lspServer{}
	for _, s := range list {
		servers = append(servers, lspServer{s.Lang, strings.Join(s.Command, " "), s.State, s.PID, s.Restarts, s.Open})
	}
	return codeLspResult{Servers: &servers}, nil
}

// record returns the record of a file that a rename has changed.
func (p *codeLspParams) record(change lspChange) map[string]any {
	fields := map[string]any{"path": change.Path, "replacements": change.Edits, "action": p.Action}
	if change.MovedTo != "" {
		fields["moved_to"] = change.MovedTo
	}
	return fields
}

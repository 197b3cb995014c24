// Package lsppool is the client of the service lsp-pool, which runs language servers.
package lsppool

import (
	"context"
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/tool-runner/internal/core/language"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// Client is a [language.Servers].
type Client struct {
	client lsppoolv1.LSPPoolServiceClient
}

var _ language.Servers = (*Client)(nil)

// New returns a Client that uses client.
func New(client lsppoolv1.LSPPoolServiceClient) *Client { return &Client{client} }

var actions = map[language.Action]lsppoolv1.Action{
	language.Diagnostics: lsppoolv1.Action_ACTION_DIAGNOSTICS, language.Definition: lsppoolv1.Action_ACTION_DEFINITION,
	language.References: lsppoolv1.Action_ACTION_REFERENCES, language.Symbols: lsppoolv1.Action_ACTION_SYMBOLS,
	language.Rename:     lsppoolv1.Action_ACTION_RENAME,
	language.RenameFile: lsppoolv1.Action_ACTION_RENAME_FILE, language.CodeActions: lsppoolv1.Action_ACTION_CODE_ACTIONS,
	language.Hover: lsppoolv1.Action_ACTION_HOVER, language.TypeDefinition: lsppoolv1.Action_ACTION_TYPE_DEFINITION,
	language.Implementation: lsppoolv1.Action_ACTION_IMPLEMENTATION,
	language.Capabilities:   lsppoolv1.Action_ACTION_CAPABILITIES,
	language.Request:        lsppoolv1.Action_ACTION_REQUEST,

	language.WarmDiagnostics: lsppoolv1.Action_ACTION_WARM_DIAGNOSTICS,
}

// Ask implements language.Servers.
func (c *Client) Ask(ctx context.Context, q language.Query) (language.Answer, error) {
	res, err := c.client.Query(ctx, &lsppoolv1.QueryRequest{
		View: view(&q), Action: actions[q.Action],
		Path: q.Path, Line: uint32(q.At.Line), Character: uint32(q.At.Character), Lang: q.Lang,
		IncludeDeclaration: q.IncludeDeclaration, IncludeDiagnostics: q.IncludeDiagnostics, Query: q.Search,
		Limit: int32(q.Limit), NewName: q.NewName,
		Method: q.Method, Params: q.Params, Severity: int32(q.Severity), Files: q.Files, WaitMs: q.WaitMS,
		TimeoutMs: q.TimeoutMS,
	}, rpc.InPlace())
	if err != nil {
		return language.Answer{}, err
	}
	a := language.Answer{
		Completeness: language.Completeness{
			State: res.GetCompleteness().GetState(), Percent: int(res.GetCompleteness().GetPercent()),
			Reason: res.GetCompleteness().GetReason(),
		},
		JSON: res.GetJson(), Records: contract.RecordsFromProto(res.GetRecords()),
	}
	for _, l := range res.GetLocations() {
		a.Locations = append(a.Locations, location(l))
	}
	for _, s := range res.GetSymbols() {
		a.Symbols = append(a.Symbols, language.Symbol{
			Name: s.GetName(), Kind: s.GetKind(), Container: s.GetContainer(),
			At: location(s.GetLocation()),
		})
	}
	for _, d := range res.GetDiagnostics() {
		a.Diagnostics = append(a.Diagnostics, language.Diagnostic{
			At: location(d.GetLocation()), Severity: int(d.GetSeverity()), Message: d.GetMessage(), Code: d.GetCode(),
			Source: d.GetSource(),
		})
	}
	if h := res.GetHover(); h != nil {
		a.Hover = &language.About{Content: h.GetContent(), Documentation: h.GetDocumentation()}
		if h.GetLocation() != nil {
			at := location(h.GetLocation())
			a.Hover.At = &at
		}
	}
	for _, e := range res.GetEdits() {
		a.Edits = append(a.Edits, fileEdit(e))
	}
	for _, action := range res.GetActions() {
		a.Actions = append(a.Actions, codeAction(action))
	}
	return a, nil
}

//convert:one view *language.Query *lsppoolv1.View Declared=Servers
//convert:one location *lsppoolv1.Location language.Location
//convert:one place *lsppoolv1.Place language.Place
//convert:one fileEdit *lsppoolv1.FileEdit contract.FileEdit
//convert:one codeAction *lsppoolv1.CodeAction contract.CodeAction
//convert:one replacement *lsppoolv1.Replacement contract.Replacement

// List implements language.Servers.
func (c *Client) List(ctx context.Context, which language.Filter) ([]contract.RunningLanguageServer, error) {
	res, err := c.client.ListServers(ctx, &lsppoolv1.ListServersRequest{
		ProjectId: which.ProjectID, Root: which.Root, View: view(which.Caller),
	}, rpc.InPlace())
	list := contract.LanguageServersFromProto(res.GetServers())
	return slices.DeleteFunc(list, func(s contract.RunningLanguageServer) bool {
		return which.Lang != "" && which.Lang != s.Lang
	}), err
}

// Stop implements language.Servers.
func (c *Client) Stop(ctx context.Context, which language.Filter) ([]contract.RunningLanguageServer, error) {
	res, err := c.client.StopServers(ctx, &lsppoolv1.StopServersRequest{
		ProjectId: which.ProjectID, Root: which.Root, Lang: which.Lang, View: view(which.Caller),
	})
	return contract.LanguageServersFromProto(res.GetServers()), err
}

// Unload implements language.Servers.
func (c *Client) Unload(
	ctx context.Context, project, root string,
) ([]contract.RunningLanguageServer, []contract.Record, error) {
	res, err := c.client.StopServers(ctx, &lsppoolv1.StopServersRequest{
		ProjectId: project, Root: root, Reason: lsppoolv1.StopReason_STOP_REASON_PROJECT_UNLOAD,
	})
	return contract.LanguageServersFromProto(res.GetServers()), contract.RecordsFromProto(res.GetRecords()), err
}

// End implements language.Servers.
func (c *Client) End(ctx context.Context) error {
	_, err := c.client.StopServers(ctx, &lsppoolv1.StopServersRequest{
		Reason: lsppoolv1.StopReason_STOP_REASON_DAEMON_SHUTDOWN,
	})
	return err
}

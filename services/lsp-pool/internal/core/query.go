package core

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// Query is one question; see kaged.lsppool.v1.QueryRequest.
type Query struct {
	View               View
	Action             Action
	Path, Lang         string
	At                 lsp.Position
	IncludeDeclaration bool
	Search             string
	Limit              int
	NewName            string
	IncludeDiagnostics bool
	Method             string
	Params             json.RawMessage
	Severity           int
	Files              []string
	Changed            []lsp.Change
	Wait, Timeout      time.Duration

	moment lsp.Moment // when the files of the query were compared, 0 for a comparison at their use
}

// Action is the kind of a query.
type Action int

// The actions.
const (
	Diagnostics Action = iota + 1
	Definition
	References
	Symbols
	Rename
	MoveFile
	CodeActions
	Hover
	TypeDefinition
	Implementation
	Capabilities
	Request
	WarmDiagnostics
)

// Answer is the answer to a query.
type Answer struct {
	Completeness Completeness
	Locations    []lsp.Location
	Symbols      []lsp.Symbol
	Diagnostics  []FileDiagnostic
	Hover        *lsp.Hover
	Edits        []FileEdit
	Actions      []CodeAction
	JSON         string
	Records      []contract.Record
}

// FileDiagnostic is a diagnostic of a file.
type FileDiagnostic struct {
	Path string
	lsp.Diagnostic
}

// Completeness is the state of the server when it answered.
type Completeness struct {
	State   string
	Percent int
	Reason  string
}

// Ask answers a query. If the server crashes during the query, Ask repeats the query once.
func (p *Pool) Ask(ctx context.Context, q Query) (Answer, error) {
	if q.Action == Diagnostics || q.Action == WarmDiagnostics {
		return p.diagnose(ctx, q)
	}
	lang := q.Lang
	if lang == "" {
		var err error
		if lang, err = p.lang(q.View, q.Path); err != nil {
			return Answer{}, err
		}
	}
	s, err := p.find(q.View, lang, q.Path, false)
	if err != nil {
		return Answer{}, err
	}
	return p.with(ctx, s, q, func(ctx context.Context, run *running, moment lsp.Moment, a *Answer) error {
		q.moment = moment
		return run.answer(ctx, q, a)
	})
}

// with queries a server within the time limit of a query. ask is given the moment when the open files were compared, 0
// if that is too long ago.
func (p *Pool) with(
	ctx context.Context, s *server, q Query, ask func(context.Context, *running, lsp.Moment, *Answer) error,
) (Answer, error) {
	limit := p.opts.QueryTimeout
	if q.Timeout > 0 {
		limit = q.Timeout
	}
	bounded, cancel := context.WithTimeout(ctx, limit+p.opts.StartTimeout)
	defer cancel()
	var a Answer
	restarted := false
	for try := 0; ; try++ {
		run, again, err := s.take(bounded, q.View.SessionID)
		restarted = restarted || again
		if err == nil {
			err = p.once(bounded, s, run, q, limit, func(ctx context.Context, moment lsp.Moment) error {
				a = Answer{Completeness: Completeness{State: stateReady, Percent: 100}}
				return ask(ctx, run, moment, &a)
			})
			if a.Completeness.State == stateReady {
				a.Completeness = completeness(run.client, restarted || try > 0)
			}
			s.give()
		}
		if err == nil {
			a.Records = s.takeRecords()
		}
		if err == nil || ctx.Err() != nil || try > 0 || !errors.Is(err, lsp.ErrServer) {
			s.release() // an error has no records
			return a, p.failed(ctx, s, q, limit, err)
		}
	}
}

// once queries a running server, after it has sent the server the changed files.
func (p *Pool) once(ctx context.Context, s *server, run *running, q Query, limit time.Duration,
	ask func(context.Context, lsp.Moment) error,
) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-bounded.Done():
		return bounded.Err()
	}
	moment, err := run.refresh(bounded, q.Changed)
	if err != nil {
		return err
	}
	if q.Action == WarmDiagnostics {
		err = ask(bounded, moment)
	} else {
		err = p.settled(bounded, run, q, moment, ask)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && q.Action != WarmDiagnostics {
		s.kill(run) // the next query starts another server
	}
	return err
}

// settled asks a server that has loaded. Some servers begin to load when they see their first file; they are asked
// again when they have.
func (p *Pool) settled(ctx context.Context, run *running, q Query, moment lsp.Moment,
	ask func(context.Context, lsp.Moment) error,
) error {
	wait := p.opts.Wait
	if q.Wait > 0 {
		wait = q.Wait
	}
	begun := time.Now()
	if run.client.Settle(ctx, wait) {
		moment = 0
	}
	loaded := len(run.client.Tasks()) == 0
	err := ask(ctx, moment)
	if err == nil && loaded && run.client.Settle(ctx, wait-time.Since(begun)) && len(run.client.Tasks()) == 0 {
		return ask(ctx, 0)
	}
	return err
}

// failed turns the failure of a query into a fault.
func (p *Pool) failed(ctx context.Context, s *server, q Query, limit time.Duration, err error) error {
	var refused *lsp.Refusal
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout,
			"The language server for %s did not answer within %s and was ended; the next call starts another.", s.entry.Lang,
			limit)
	case errors.Is(err, lsp.ErrServer):
		return fault.Wrap(err, fault.LspServerUnavailable, "The language server for %s crashed twice over this call.",
			s.entry.Lang).
			With("lang", s.entry.Lang).With("log", s.tail())
	case errors.As(err, &refused) && refused.GivenUp():
		return fault.Wrap(err, fault.Timeout,
			"The language server for %s gave up the call again and again for %s, because it is loading or files change: %s",
			s.entry.Lang, limit, sentence(refused.Message))
	case errors.As(err, &refused) && (q.Action == Rename || q.Action == MoveFile):
		return fault.Wrap(err, fault.RenameNotPossible, "The language server refuses the rename: %s",
			sentence(refused.Message))
	case errors.As(err, &refused):
		return fault.Wrap(err, fault.InvalidParams, "The language server refuses: %s",
			sentence(refused.Message)).With("field", "action")
	}
	return fault.Wrap(err, fault.LspServerUnavailable, "The language server for %s gave no usable answer: %v.",
		s.entry.Lang, err).With("lang", s.entry.Lang)
}

// sentence returns a server's text with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "it gives no reason."
	}
	if !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}

// refresh sends the server the changes since the last refresh. It returns the moment when it compared the open files.
func (r *running) refresh(ctx context.Context, known []lsp.Change) (lsp.Moment, error) {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	changes, position := r.tree.since(ctx, r.seen, known)
	moment, err := r.client.Sync(changes)
	if err != nil {
		return 0, err
	}
	r.seen = position
	return moment, ctx.Err()
}

// open sends the server the file of a query.
func (r *running) open(q Query) (lsp.Doc, error) { return r.client.OpenAt(q.Path, q.moment) }

// openAt sends the server the file of a query about a position; see contains.
func (r *running) openAt(q Query) (lsp.Doc, error) {
	doc, err := r.open(q)
	if err != nil {
		return doc, err
	}
	return doc, contains(doc, q.At)
}

// contains fails with invalid_params for a position after the end of a document or of a line. Servers disagree about
// these: some answer with nothing or for another place, and some name their own number of the line.
func contains(doc lsp.Doc, at lsp.Position) error {
	name := filepath.Base(doc.Path)
	if count := doc.Text.Lines(); int64(at.Line) >= int64(count) {
		if count > 1 && doc.Text.Line(count-1) == "" { // the end of the last line
			count--
		}
		return fault.New(fault.InvalidParams, "Line %d is after the end of %s, which has %d lines.", int64(at.Line)+1, name,
			count).With("field", "line")
	}
	if length := doc.Text.Length(at.Line, lsp.UTF16); at.Character > length {
		return fault.New(fault.InvalidParams, "Character %d is after the end of line %d of %s, which has %d UTF-16 units.",
			at.Character, int64(at.Line)+1, name, length).With("field", "character")
	}
	return nil
}

// completeness returns whether a server has finished loading, and the reason if not.
func completeness(c *lsp.Client, restarted bool) Completeness {
	if tasks := c.Tasks(); len(tasks) > 0 {
		t := tasks[0]
		reason := "The language server is busy"
		if text := strings.TrimSpace(t.Title + " " + t.Message); text != "" {
			reason += ": " + text
		}
		return Completeness{State: stateIndexing, Percent: t.Percent, Reason: reason + "."}
	}
	if warning := c.Warning(); warning != "" {
		return Completeness{
			State: "partial", Percent: -1, Reason: "The language server calls its answers incomplete: " + sentence(warning),
		}
	}
	if restarted {
		return Completeness{
			State: "restarted", Percent: 100,
			Reason: "The language server crashed and was started again; what it had in its caches is read anew.",
		}
	}
	return Completeness{State: stateReady, Percent: 100}
}

// partial records in an answer that it is not complete.
func (a *Answer) partial(format string, args ...any) {
	a.Completeness = Completeness{State: "partial", Percent: -1, Reason: fmt.Sprintf(format, args...)}
}

// unsupported returns the error of an action that the server does not offer.
func unsupported(what string) error {
	return fault.New(fault.InvalidParams, "This language server offers no %s.", what).With("field", "action")
}

// places are the actions about a position, with the capability that offers them.
var places = map[Action]struct{ capability, method, what string }{
	Definition:     {"definitionProvider", "textDocument/definition", "definitions"},
	References:     {"referencesProvider", "textDocument/references", "references"},
	TypeDefinition: {"typeDefinitionProvider", "textDocument/typeDefinition", "type definitions"},
	Implementation: {"implementationProvider", "textDocument/implementation", "implementations"},
}

// answer queries a running server.
func (r *running) answer(ctx context.Context, q Query, a *Answer) error {
	switch q.Action {
	case Definition, References, TypeDefinition, Implementation:
		return r.locate(ctx, q, a)
	case Hover:
		return r.hover(ctx, q, a)
	case Symbols:
		return r.symbols(ctx, q, a)
	case Rename:
		return r.rename(ctx, q, a)
	case MoveFile:
		return r.moveFile(ctx, q, a)
	case CodeActions:
		return r.codeActions(ctx, q, a)
	case Capabilities:
		a.JSON = string(r.client.Capabilities())
		return nil
	case Request:
		return r.request(ctx, q, a)
	}
	return fault.New(fault.BadRequest, "The action is unknown.")
}

func (r *running) locate(ctx context.Context, q Query, a *Answer) error {
	kind := places[q.Action]
	if !r.client.Provides(kind.capability, kind.method) {
		return unsupported(kind.what)
	}
	doc, err := r.openAt(q)
	if err != nil {
		return err
	}
	var more map[string]any
	if q.Action == References {
		more = map[string]any{"context": map[string]bool{"includeDeclaration": q.IncludeDeclaration}}
	}
	var raw json.RawMessage
	if err := r.client.At(ctx, kind.method, doc, q.At, more, &raw); err != nil {
		return err
	}
	list, left, err := lsp.ParseLocations(raw)
	if err != nil {
		return err
	}
	if left > 0 {
		a.partial("%d places were left out: they are too many, or not in files.", left)
	}
	texts := r.texts(doc)
	for i := range list {
		list[i].Range = r.client.UTF16(texts.of(list[i].Path), list[i].Range)
	}
	a.Locations = list
	return nil
}

func (r *running) hover(ctx context.Context, q Query, a *Answer) error {
	if !r.client.Provides("hoverProvider", "textDocument/hover") {
		return unsupported("hover")
	}
	doc, err := r.openAt(q)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := r.client.At(ctx, "textDocument/hover", doc, q.At, nil, &raw); err != nil {
		return err
	}
	a.Hover, err = lsp.ParseHover(raw)
	if a.Hover != nil && a.Hover.Range != nil {
		converted := r.client.UTF16(doc.Text, *a.Hover.Range)
		a.Hover.Range = &converted
	}
	return err
}

func (r *running) symbols(ctx context.Context, q Query, a *Answer) error {
	var raw json.RawMessage
	if q.Search != "" {
		if !r.client.Provides("workspaceSymbolProvider", "workspace/symbol") {
			return unsupported("symbols of the project")
		}
		if err := r.client.Call(ctx, "workspace/symbol", map[string]string{"query": q.Search}, &raw); err != nil {
			return err
		}
	} else {
		if !r.client.Provides("documentSymbolProvider", "textDocument/documentSymbol") {
			return unsupported("symbols of a file")
		}
		doc, err := r.open(q)
		if err != nil {
			return err
		}
		params := map[string]any{"textDocument": map[string]string{"uri": lsp.URI(doc.Path)}}
		if err := r.client.Call(ctx, "textDocument/documentSymbol", params, &raw); err != nil {
			return err
		}
	}
	list, err := lsp.ParseSymbols(raw, q.Path)
	if err != nil {
		return err
	}
	if q.Limit > 0 && len(list) > q.Limit {
		a.partial("%d of %d symbols are shown; raise limit, or ask with a longer query.", q.Limit, len(list))
		list = list[:q.Limit]
	}
	texts := r.texts()
	for i := range list {
		list[i].Range = r.client.UTF16(texts.of(list[i].Path), list[i].Range)
	}
	a.Symbols = list
	return nil
}

// Readable are the methods of the action request; they are read-only.
var Readable = []string{
	"callHierarchy/incomingCalls", "callHierarchy/outgoingCalls", "textDocument/codeLens", "textDocument/completion",
	"textDocument/declaration",
	"textDocument/definition", "textDocument/documentHighlight", "textDocument/documentLink",
	"textDocument/documentSymbol", "textDocument/foldingRange",
	"textDocument/hover", "textDocument/implementation", "textDocument/inlayHint", "textDocument/prepareCallHierarchy",
	"textDocument/prepareRename",
	"textDocument/prepareTypeHierarchy", "textDocument/references", "textDocument/selectionRange",
	"textDocument/signatureHelp",
	"textDocument/typeDefinition", "typeHierarchy/subtypes", "typeHierarchy/supertypes", "workspace/symbol",
}

func (r *running) request(ctx context.Context, q Query, a *Answer) error {
	if !slices.Contains(Readable, q.Method) {
		return fault.New(fault.CapabilityDenied, "The method %.80s may do more than look; request takes only %s.", q.Method,
			strings.Join(Readable, ", ")).
			With("required", "lsp:"+q.Method)
	}
	if _, err := r.open(q); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := r.client.Call(ctx, q.Method, q.Params, &raw); err != nil {
		return err
	}
	if a.JSON = string(raw); a.JSON == "" {
		a.JSON = "null"
	}
	return nil
}

// texts reads files of an answer, each once.
type texts struct {
	run  *running
	read map[string]*lsp.Text
}

func (r *running) texts(docs ...lsp.Doc) texts {
	t := texts{r, map[string]*lsp.Text{}}
	for _, d := range docs {
		t.read[d.Path] = d.Text
	}
	return t
}

// of returns the text of a file, an empty text for a file that cannot be read. It reads the file only if the server
// does not count in UTF-16.
func (t texts) of(path string) *lsp.Text {
	if text := t.read[path]; text != nil {
		return text
	}
	text := lsp.NewText("")
	if t.run.client.Encoding() != lsp.UTF16 {
		if data, _, err := (files{t.run.root}).Read(filepath.Clean(path), maxText); err == nil {
			text = lsp.NewText(string(data))
		}
	}
	t.read[path] = text
	return text
}

// maxText is the maximum size of a file that is read to convert positions.
const maxText = 8 << 20

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }

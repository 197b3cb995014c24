package tools

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/edit"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/structural"
	"kaged.dev/services/tool-runner/internal/core/syntax"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed edit_ast.md
var editAstText string

type editAstParams struct {
	Rewrites        schema.Pairs `json:"rewrites" doc:"Pattern to replacement, applied in this order."`
	Lang            string       `json:"lang,omitempty" enum:"bash,c,cpp,csharp,css,go,hcl,html,java,javascript,json,kotlin,lua,php,python,ruby,rust,swift,tsx,typescript,yaml" doc:"Language. Default: that of the files, if all are of one."`
	Path            string       `json:"path,omitempty" default:"." doc:"File or folder. Default: the project's root."`
	Glob            string       `json:"glob,omitempty" doc:"Glob that names of files below a folder must match."`
	DryRun          bool         `json:"dry_run,omitempty" default:"true" doc:"Whether to only show what would change."`
	MaxReplacements schema.Int   `json:"max_replacements,omitempty" min:"1" doc:"How many replacements to make at most. Default: no limit."`
	MaxFiles        schema.Int   `json:"max_files,omitempty" min:"1" doc:"How many files to change at most. Default: no limit."`
}

type editAstResult struct {
	Changes           []astChange     `json:"changes"`
	FileChanges       []astFileChange `json:"file_changes"`
	TotalReplacements int             `json:"total_replacements"`
	FilesTouched      int             `json:"files_touched"`
	FilesSearched     int             `json:"files_searched"`
	Applied           bool            `json:"applied"`
	LimitReached      bool            `json:"limit_reached"`
	Truncated         bool            `json:"truncated,omitempty" doc:"Whether not all changes are shown."`
	Diff              string          `json:"diff"`
	ParseErrors       []astParseError `json:"parse_errors"`
}

type astChange struct {
	Path        string `json:"path"`
	Before      string `json:"before"`
	After       string `json:"after"`
	ByteStart   int    `json:"byte_start"`
	ByteEnd     int    `json:"byte_end"`
	StartLine   int    `json:"start_line"`
	StartColumn int    `json:"start_column"`
	EndLine     int    `json:"end_line"`
	EndColumn   int    `json:"end_column"`
}

type astFileChange struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

type astParseError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func editAst(d Deps) *tool.Entry {
	limits := d.Limits
	return tool.Define(tool.Spec[editAstParams, editAstResult]{
		Name: "edit.ast", Description: editAstText, Category: tool.Write, OwnTimeout: true,
		Requires: []tool.Requirement{tool.WorkIn("path", tool.CallerPath)},
		Needs: func(p *editAstParams) []tool.Requirement {
			if p.DryRun {
				return []tool.Requirement{tool.SearchPath("path", p.Path)}
			}
			return []tool.Requirement{tool.WorkIn("path", p.Path)}
		},
		Effect: func(p *editAstParams) tool.Effect {
			if p.DryRun {
				return tool.Effect{Category: tool.Read}
			}
			return tool.Effect{Category: tool.Write}
		},
		Preview: func(ctx context.Context, call *tool.Call, p *editAstParams) (string, error) {
			dry := *p
			dry.DryRun = true
			r, err := d.rewriteCode(ctx, call, &dry)
			return r.Diff, err
		},
		Limits: []tool.Limit{
			tool.InTime("search_timeout", limits.Search.Timeout, "to find what is to be rewritten"),
			tool.InBytes("search_output_bytes", limits.Search.OutputBytes, "of the changes in the answer"),
			tool.InBytes("syntax_file_bytes", limits.Syntax.FileBytes, "of the largest file that is parsed"),
			tool.InBytes("diff_bytes", limits.DiffBytes, "of the diff in the answer"),
		},
		Run: d.rewriteCode,
	})
}

// rewrite is what is to be done to one file, which had the content text when it was looked at.
type rewrite struct {
	file    paths.Path
	text    []byte
	changes []structural.Edit
	places  []astChange
}

// codeRewrite is one call.
type codeRewrite struct {
	deps   Deps
	call   *tool.Call
	params *editAstParams
	lang   *syntax.Language
	rules  []*structural.Rule

	mu       sync.Mutex // guards what is below
	found    []rewrite
	searched int
	errors   []astParseError
}

// rewriteCode finds what the rewrites change, and makes the changes unless it is a dry run.
func (d Deps) rewriteCode(ctx context.Context, call *tool.Call, p *editAstParams) (editAstResult, error) {
	w := &codeRewrite{deps: d, call: call, params: p}
	bounded, cancel := context.WithTimeout(ctx, d.Limits.Search.Timeout)
	defer cancel()
	if err := w.prepare(bounded); err != nil {
		return editAstResult{}, w.late(ctx, err)
	}
	files, err := w.sources(w.wanted)
	if err != nil {
		return editAstResult{}, err
	}
	if err := files.each(bounded); err != nil {
		return editAstResult{}, w.late(ctx, err)
	}
	if w.searched == 0 && len(w.errors) == 1 {
		only := w.errors[0]
		return editAstResult{}, fault.New(fault.InvalidParams, "%s cannot be rewritten: %s.", only.Path, strings.TrimSuffix(only.Message, ".")).With("path", only.Path)
	}
	slices.SortFunc(w.found, func(a, b rewrite) int { return strings.Compare(a.file.Show, b.file.Show) })
	limited := w.limit()
	if !p.DryRun {
		if err := w.apply(ctx); err != nil {
			return editAstResult{}, err
		}
	}
	return w.result(limited), nil
}

// late turns the end of the time for searching into an error: half of a rewrite is none.
func (w *codeRewrite) late(ctx context.Context, err error) error {
	if ranOut(ctx, err) {
		return fault.New(fault.Timeout, "Finding what is to be rewritten took longer than %s; name a smaller path or a glob.", w.deps.Limits.Search.Timeout)
	}
	return err
}

// prepare finds out the language and compiles the rewrites.
func (w *codeRewrite) prepare(ctx context.Context) error {
	if w.params.Lang != "" {
		w.lang = syntax.Lookup(w.params.Lang)
	} else if err := w.infer(ctx); err != nil {
		return err
	}
	for _, pair := range w.params.Rewrites {
		pattern, err := w.deps.compile(ctx, w.lang, pair.Key, "rewrites")
		if err != nil {
			return err
		}
		rule, err := structural.NewRule(pattern, pair.Value)
		if err != nil {
			return syntaxFailure(err, "rewrites")
		}
		w.rules = append(w.rules, rule)
	}
	return nil
}

// infer finds the one language the files have.
func (w *codeRewrite) infer(ctx context.Context) error {
	start := w.call.Paths[0]
	var mu sync.Mutex
	extensions := map[string]*syntax.Language{}
	note := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		extensions[path.Ext(name)] = syntax.Of(name)
	}
	if start.Exists && !start.Mode.IsDir() {
		note(start.Rel)
	} else {
		files, err := w.sources(func(_ paths.Path, name string) bool {
			if syntax.Of(name) != nil || w.params.Glob != "" {
				note(name)
			}
			return false
		})
		if err != nil {
			return err
		}
		if err := files.each(ctx); err != nil {
			return err
		}
	}
	known := map[*syntax.Language]bool{}
	for _, lang := range extensions {
		known[lang] = true
		w.lang = lang
	}
	names := slices.Sorted(maps.Keys(extensions))
	switch {
	case len(known) == 0:
		return fault.New(fault.InvalidParams, "There is no source file to rewrite in %s; give lang, or another path or glob.", start.Show).With("field", "lang")
	case len(known) > 1:
		return fault.New(fault.InvalidParams, "The files are of several languages (%s); give lang.", strings.Join(names, ", ")).
			With("field", "lang").With("extensions", names)
	case w.lang == nil:
		return fault.New(fault.InvalidParams, "Files ending in %q are of no language that can be rewritten; give lang if they are.", strings.Join(names, ", ")).
			With("field", "lang").With("extensions", names)
	}
	return nil
}

// sources returns the files of the call that want chooses and the caller may see or, if it is for that, change.
func (w *codeRewrite) sources(want func(paths.Path, string) bool) (*sources, error) {
	start := w.call.Paths[0]
	chosen, err := includes("glob", w.params.Glob, start)
	if err != nil {
		return nil, err
	}
	return &sources{
		deps: w.deps, call: w.call, start: start, read: w.file, skipped: w.skip,
		want: func(folder paths.Path, name string) bool {
			return (chosen == nil || chosen(folder, name)) && w.call.Access.Allows(path.Join(folder.Abs(), name), !w.params.DryRun) &&
				want(folder, name)
		},
	}, nil
}

func (w *codeRewrite) wanted(_ paths.Path, name string) bool { return syntax.Of(name) == w.lang }

// skip remembers that a file was left out.
func (w *codeRewrite) skip(file paths.Path, problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, astParseError{file.Show, problem})
}

// file finds what is to be done to one file.
func (w *codeRewrite) file(ctx context.Context, file paths.Path, text []byte) {
	one := rewrite{file: file, text: text}
	if !slices.ContainsFunc(w.rules, func(r *structural.Rule) bool { return r.Pattern.Possible(text) }) {
		w.keep(one)
		return
	}
	problem := ""
	err := w.deps.Parsers.Use(ctx, func(parser *syntax.Parser) error {
		tree, err := parser.Parse(ctx, w.lang, text, w.deps.Limits.Syntax.Nodes)
		if err != nil {
			return err
		}
		if i := tree.Failure(); i >= 0 {
			at := (&lines{text: text}).locate(min(int(tree.Nodes[i].Start), len(text)))
			problem = fmt.Sprintf("syntax error at line %d, column %d", at.line, at.column)
			return nil
		}
		one.changes, err = structural.Rewrite(ctx, &tree, w.rules)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		problem = err.Error()
	}
	at := lines{text: text}
	for _, e := range one.changes {
		from, to := at.locate(e.Start), at.locate(e.End)
		one.places = append(one.places, astChange{
			Path: file.Show, Before: string(text[e.Start:e.End]), After: e.Text, ByteStart: e.Start, ByteEnd: e.End,
			StartLine: from.line, StartColumn: from.column, EndLine: to.line, EndColumn: to.column,
		})
	}
	if problem != "" {
		w.skip(file, problem)
		return
	}
	w.keep(one)
}

// keep remembers what is to be done to a file that was searched.
func (w *codeRewrite) keep(one rewrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.searched++
	if len(one.changes) > 0 {
		w.found = append(w.found, one)
	}
}

// limit leaves out what is beyond the call's limits, in the order of the files, and reports whether anything was.
func (w *codeRewrite) limit() bool {
	most, files := int(w.params.MaxReplacements), int(w.params.MaxFiles)
	limited := false
	if files > 0 && len(w.found) > files {
		w.found, limited = w.found[:files], true
	}
	if most == 0 {
		return limited
	}
	for i := range w.found {
		one := &w.found[i]
		if most == 0 {
			w.found, limited = w.found[:i], true
			break
		}
		if len(one.changes) > most {
			one.changes, one.places, limited = one.changes[:most], one.places[:most], true
		}
		most -= len(one.changes)
	}
	return limited
}

// apply writes the files, one after the other. One that has changed since it was looked at, or that cannot be written, is left
// out; if that is so of all, the first reason is the error.
func (w *codeRewrite) apply(ctx context.Context) error {
	var first error
	kept := w.found[:0]
	for _, one := range w.found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.write(ctx, one); err != nil {
			w.errors = append(w.errors, astParseError{one.file.Show, fault.From(err).Error()})
			if first == nil {
				first = err
			}
			continue
		}
		kept = append(kept, one)
	}
	w.found = kept
	if len(kept) == 0 {
		return first
	}
	return nil
}

// write changes one file while nobody else can.
func (w *codeRewrite) write(ctx context.Context, one rewrite) error {
	release, err := w.call.Hold(ctx, one.file)
	if err != nil {
		return err
	}
	defer release()
	data, was, err := w.deps.load(ctx, one.file)
	if err != nil {
		return err
	}
	before := sha256.Sum256(data)
	if before != sha256.Sum256(one.text) {
		return fault.New(fault.FileChangedSinceRead, "%s changed while it was being rewritten; call again.", one.file.Show).With("path", one.file.Show)
	}
	after := structural.Apply(one.text, one.changes)
	if err := paths.Apply(paths.Change{At: one.file, Was: was, Data: after}); err != nil {
		return err
	}
	// Who knew the file knows it still: they see what changed. Who did not, has not read the rest.
	if w.deps.check(w.call, one.file, before) == nil {
		w.deps.saw(w.call, one.file, sha256.Sum256(after))
	}
	w.call.Record(audit.FileEdited, map[string]any{"path": one.file.Show, "replacements": len(one.changes)})
	return nil
}

// result renders what was or would be done.
func (w *codeRewrite) result(limited bool) editAstResult {
	r := editAstResult{
		Changes: []astChange{}, FileChanges: []astFileChange{}, FilesTouched: len(w.found), FilesSearched: w.searched,
		Applied: !w.params.DryRun && len(w.found) > 0, LimitReached: limited, ParseErrors: w.errors,
	}
	slices.SortFunc(r.ParseErrors, func(a, b astParseError) int { return strings.Compare(a.Path, b.Path) })
	if r.ParseErrors == nil {
		r.ParseErrors = []astParseError{}
	}
	var diff strings.Builder
	left := w.deps.Limits.Search.OutputBytes
	for _, one := range w.found {
		r.FileChanges = append(r.FileChanges, astFileChange{one.file.Show, len(one.changes)})
		r.TotalReplacements += len(one.changes)
		for _, c := range one.places {
			if left -= len(c.Path) + len(c.Before) + len(c.After) + changeOverhead; left < 0 {
				r.Truncated = true
				break
			}
			r.Changes = append(r.Changes, c)
		}
		if room := w.deps.Limits.DiffBytes - diff.Len(); room > 0 {
			changes := make([]edit.Change, len(one.changes))
			for i, e := range one.changes {
				changes[i] = edit.Change{Start: e.Start, End: e.End, Text: e.Text}
			}
			diff.WriteString(edit.Diff(one.file.Show, string(one.text), changes, room))
		}
	}
	r.Diff = diff.String()
	return r
}

// changeOverhead is what a change in the answer needs besides its texts, in bytes.
const changeOverhead = 160

package tools

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"kaged.dev/pkg/astgrep"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/schema"
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
	Truncated         bool            `json:"truncated,omitempty" doc:"Whether not all changes, files and errors are shown."`
	Diff              string          `json:"diff"`
	ParseErrors       []astParseError `json:"parse_errors"`
	FilesSkipped      int             `json:"files_skipped,omitempty" doc:"How many files were left out; parse_errors shows the first of them."`

	Diagnostics *[]lspDiagnostic `json:"diagnostics,omitempty" doc:"New errors of the files, where a server runs."`
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
		Requires: []tool.Requirement{tool.ChangeBelow("path", tool.CallerPath)},
		Needs: func(p *editAstParams) []tool.Requirement {
			if p.DryRun {
				return []tool.Requirement{tool.SearchPath("path", p.Path)}
			}
			return []tool.Requirement{tool.ChangeBelow("path", p.Path)}
		},
		Effect: func(p *editAstParams) tool.Effect {
			if p.DryRun {
				return tool.Effect{Category: tool.Read}
			}
			return tool.Effect{Category: tool.Write}
		},
		Preview: func(ctx context.Context, call *tool.Call, p *editAstParams) (string, error) {
			r, err := d.rewriteCode(ctx, call, p, false)
			return r.Diff, err
		},
		Limits: []tool.Limit{
			tool.InTime("search_timeout", limits.Search.Timeout, "to find what is to be rewritten"),
			tool.InBytes("search_output_bytes", limits.Search.OutputBytes,
				"of the changes in the answer, of its files, and of its errors"),
			tool.InBytes("patch_total_bytes", limits.PatchBytes,
				"of files held at once, what is more is read again, and of what is put into them"),
			tool.InBytes("syntax_file_bytes", limits.Syntax.FileBytes, "of the largest file that is parsed"),
			tool.InBytes("diff_bytes", limits.DiffBytes, "of the diff in the answer"),
		},
		After: func(ctx context.Context, call *tool.Call, r *editAstResult) { r.Diagnostics = d.newErrors(ctx, call) },
		Run: func(ctx context.Context, call *tool.Call, p *editAstParams) (editAstResult, error) {
			return d.rewriteCode(ctx, call, p, !p.DryRun)
		},
	})
}

// rewrite is the planned change of one file. text is the file's content at the time of reading.
type rewrite struct {
	file    paths.Path
	text    []byte // nil if the texts together are too large to keep; then hash is the hash of the text
	hash    reads.Hash
	changes []astgrep.Edit
}

// is reports whether data equals the file's content at the time of reading.
func (r *rewrite) is(data []byte) bool {
	if r.text == nil {
		return reads.Sum(data) == r.hash
	}
	return bytes.Equal(data, r.text)
}

// codeRewrite is one call.
type codeRewrite struct {
	deps   Deps
	call   *tool.Call
	params *editAstParams
	lang   *syntax.Language
	rules  []*astgrep.Rule

	mu       sync.Mutex // guards the fields below
	found    []rewrite
	held     int64 // bytes of the texts in found
	made     int64 // the bytes that the changes in found insert, and those of changes left out because they are too large
	searched int
	errors   []astParseError
}

// rewriteCode finds the changes of the rewrites, and makes them if apply is true. A preview shows the same changes.
func (d Deps) rewriteCode(ctx context.Context, call *tool.Call, p *editAstParams, apply bool) (editAstResult, error) {
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
	if limit := d.Limits.PatchBytes; w.made > limit {
		return editAstResult{}, fault.New(fault.FileTooLarge,
			"The rewrites would put more than %d bytes into the files; name a smaller path or a glob.", limit).
			With("limit_bytes", limit)
	}
	if w.searched == 0 && len(w.errors) == 1 {
		only := w.errors[0]
		return editAstResult{}, fault.New(fault.InvalidParams, "%s cannot be rewritten: %s.", only.Path,
			strings.TrimSuffix(only.Message, ".")).With("path", only.Path)
	}
	slices.SortFunc(w.found, func(a, b rewrite) int { return strings.Compare(a.file.Show, b.file.Show) })
	a := &astAnswer{most: d.Limits.Search.OutputBytes, diffBytes: d.Limits.DiffBytes}
	a.LimitReached = w.limit()
	do := w.foresee
	if apply {
		do = w.apply
	}
	if err := do(ctx, a); err != nil {
		return editAstResult{}, err
	}
	return w.result(a), nil
}

// late returns an error when the search time is over: a rewrite is complete or not made at all.
func (w *codeRewrite) late(ctx context.Context, err error) error {
	if ranOut(ctx, err) {
		return fault.New(fault.Timeout,
			"Finding what is to be rewritten took longer than %s; name a smaller path or a glob.", w.deps.Limits.Search.Timeout)
	}
	return err
}

// prepare determines the language and compiles the rewrites.
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
		rule, err := astgrep.NewRule(pattern, pair.Value)
		if err != nil {
			return syntaxFailure(err, "rewrites")
		}
		w.rules = append(w.rules, rule)
	}
	return nil
}

// infer determines the one language of the files.
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
	if len(names) > maxExtensions {
		names = append(names[:maxExtensions], "...")
	}
	switch {
	case len(known) == 0:
		return fault.New(fault.InvalidParams,
			"There is no source file to rewrite in %s; give lang, or another path or glob.", start.Show).With("field", "lang")
	case len(known) > 1:
		return fault.New(fault.InvalidParams, "The files are of several languages (%s); give lang.", strings.Join(names,
			", ")).
			With("field", "lang").With("extensions", names)
	case w.lang == nil:
		return fault.New(fault.InvalidParams,
			"Files ending in %q are of no language that can be rewritten; give lang if they are.", strings.Join(names, ", ")).
			With("field", "lang").With("extensions", names)
	}
	return nil
}

// maxExtensions is the maximum number of file name extensions in an error.
const maxExtensions = 20

// sources returns the files of the call that want selects, limited to those that the caller may read or, without dry
// run, write.
func (w *codeRewrite) sources(want func(paths.Path, string) bool) (*sources, error) {
	start := w.call.Paths[0]
	chosen, err := includes("glob", w.params.Glob, start)
	if err != nil {
		return nil, err
	}
	return &sources{
		deps: w.deps, call: w.call, start: start, read: w.file, skipped: w.skip,
		want: func(folder paths.Path, name string) bool {
			return (chosen == nil || chosen(folder, name)) && w.call.Access.Allows(path.Join(folder.Abs(), name),
				!w.params.DryRun) &&
				want(folder, name)
		},
	}, nil
}

func (w *codeRewrite) wanted(_ paths.Path, name string) bool { return syntax.Of(name) == w.lang }

// skip records that a file was left out.
func (w *codeRewrite) skip(file paths.Path, problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, astParseError{file.Show, problem})
}

// file plans the change of one file.
func (w *codeRewrite) file(ctx context.Context, file paths.Path, text []byte) {
	one := rewrite{file: file, text: text}
	if !slices.ContainsFunc(w.rules, func(r *astgrep.Rule) bool { return r.Pattern.Possible(text) }) {
		w.keep(one)
		return
	}
	problem := ""
	err := w.deps.Parsers.Use(ctx, func(parser *syntax.Parser) error {
		tree, err := w.parse(ctx, parser, text)
		if err != nil {
			return err
		}
		if i := tree.Failure(); i >= 0 {
			at := (&lines{text: text}).locate(min(int(tree.Nodes[i].Start), len(text)))
			problem = fmt.Sprintf("syntax error at line %d, column %d", at.line, at.column)
			return nil
		}
		one.changes, err = astgrep.Rewrite(ctx, &tree, w.rules, w.deps.Limits.EditFile)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		problem = err.Error()
	}
	if problem != "" {
		w.skip(file, problem)
		return
	}
	w.keep(one)
}

// parse parses a file for the rules.
func (w *codeRewrite) parse(ctx context.Context, parser *syntax.Parser, text []byte) (syntax.Tree, error) {
	if len(w.rules) == 1 {
		return w.rules[0].Pattern.Parse(ctx, parser, text, w.deps.Limits.Syntax.Nodes)
	}
	return parser.Parse(ctx, w.lang, text, w.deps.Limits.Syntax.Nodes)
}

// keep stores the planned change of a searched file. In the search of a folder, files that need an operator's approval
// are skipped; such a file must be named by its path.
func (w *codeRewrite) keep(one rewrite) {
	if len(one.changes) > 0 && w.call.System(one.file.Abs()) && !w.call.System(w.call.Paths[0].Abs()) {
		w.skip(one.file, "it is a system path, which is only rewritten by a path of its own")
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.searched++
	if len(one.changes) == 0 {
		return
	}
	for _, e := range one.changes {
		w.made += int64(len(e.Text))
	}
	if w.made > w.deps.Limits.PatchBytes {
		return
	}
	// A rewrite of a whole tree must not hold the tree in memory. Files beyond the limit are read again.
	if w.held += int64(len(one.text)); w.held > w.deps.Limits.PatchBytes {
		w.held -= int64(len(one.text))
		one.hash, one.text = reads.Sum(one.text), nil
	}
	w.found = append(w.found, one)
}

// limit drops changes beyond the call's limits, in the order of the files, and reports whether it
// dropped any.
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
			one.changes, limited = one.changes[:most], true
		}
		most -= len(one.changes)
	}
	return limited
}

// foresee reports the planned changes. A file that changed after the search is left out.
func (w *codeRewrite) foresee(ctx context.Context, a *astAnswer) error {
	for i := range w.found {
		one := &w.found[i]
		text := one.text
		if text == nil && !a.full() {
			data, _, err := w.deps.load(ctx, one.file)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil && !one.is(data) {
				err = changedMeanwhile(one.file)
			}
			if err != nil {
				w.skip(one.file, fault.From(err).Error())
				continue
			}
			text = data
		}
		a.add(one.file, text, one.changes)
	}
	return nil
}

// apply writes the files, one after the other. A file that changed after the search, or that cannot be written, is left
// out. If all files are left out, the first reason is the error.
func (w *codeRewrite) apply(ctx context.Context, a *astAnswer) error {
	var first error
	for i := range w.found {
		one := &w.found[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := w.write(ctx, one)
		if err != nil {
			w.skip(one.file, fault.From(err).Error())
			if first == nil {
				first = err
			}
			continue
		}
		a.add(one.file, data, one.changes)
		a.Applied = true
		one.text = nil // the text is no longer needed
	}
	if !a.Applied {
		return first
	}
	return nil
}

// write changes one file under its lock, and returns its content before.
func (w *codeRewrite) write(ctx context.Context, one *rewrite) ([]byte, error) {
	release, err := w.call.Hold(ctx, one.file)
	if err != nil {
		return nil, err
	}
	defer release()
	data, was, err := w.deps.load(ctx, one.file)
	if err != nil {
		return nil, err
	}
	if !one.is(data) {
		return nil, changedMeanwhile(one.file)
	}
	after := astgrep.Apply(data, one.changes)
	if err := w.deps.apply(w.call, change.Change{At: w.call.Changing(one.file), Was: was, Data: after}); err != nil {
		return nil, err
	}
	// A caller that had read the file still knows its content, because the answer shows the changes. A caller that had not
	// read it does not know the rest.
	if w.deps.check(w.call, one.file, reads.Sum(data)) == nil {
		w.deps.saw(w.call, one.file, reads.Sum(after))
	}
	w.call.Changed = append(w.call.Changed, one.file)
	w.call.Record(audit.FileEdited, map[string]any{
		"path": one.file.Show, "replacements": len(one.changes), "sha256": sha256Of(after),
	})
	return data, nil
}

func changedMeanwhile(file paths.Path) error {
	return fault.New(fault.FileChangedSinceRead, "%s changed while it was being rewritten; call again.",
		file.Show).With("path", file.Show)
}

// result completes the answer with the numbers of omitted entries.
func (w *codeRewrite) result(a *astAnswer) editAstResult {
	slices.SortFunc(w.errors, func(a, b astParseError) int { return strings.Compare(a.Path, b.Path) })
	a.FilesSearched, a.FilesSkipped = w.searched, len(w.errors)
	return a.close(w.errors)
}

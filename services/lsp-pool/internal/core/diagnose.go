package core

import (
	"context"
	"errors"
	"slices"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// diagnose requests the diagnostics of files from their servers, language by language.
func (p *Pool) diagnose(ctx context.Context, q Query) (Answer, error) {
	byLang := map[string][]string{}
	var langs []string
	for _, path := range q.Files {
		lang := q.Lang
		if lang == "" {
			found, err := p.lang(q.View, path)
			if err != nil && (len(q.Files) == 1 && q.Action == Diagnostics) {
				return Answer{}, err
			}
			if err != nil {
				continue
			}
			lang = found
		}
		if byLang[lang] == nil {
			langs = append(langs, lang)
		}
		byLang[lang] = append(byLang[lang], path)
	}
	var all Answer
	if q.Action == Diagnostics {
		all.Completeness = Completeness{State: stateReady, Percent: 100}
	}
	for _, lang := range langs {
		warm := q.Action == WarmDiagnostics
		s, err := p.find(q.View, lang, byLang[lang][0], warm)
		if err != nil {
			return all, err
		}
		if warm && (s == nil || !s.works()) {
			continue
		}
		a, err := p.with(ctx, s, q, func(ctx context.Context, run *running, _ lsp.Moment, a *Answer) error {
			if err := run.diagnose(ctx, byLang[lang], q.Severity, a); err != nil {
				return err
			}
			if s.entry.Checker != "" && !run.checks(ctx, p, s) {
				a.partial("%s, which finds the errors of files for the language server, is not installed.", s.entry.Checker)
			}
			return nil
		})
		all.Records = append(all.Records, a.Records...)
		all.Diagnostics = append(all.Diagnostics, a.Diagnostics...)
		if a.Completeness.State != stateReady && a.Completeness.State != "" || all.Completeness.State == "" {
			all.Completeness = a.Completeness
		}
		if err != nil && len(langs) > 1 && (errors.Is(err, fault.LspServerNotFound) || errors.Is(err,
			fault.LspServerUnavailable)) {
			all.partial("%s", fault.From(err).Msg)
			continue
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// checks reports whether the checker of a server's entry is installed in the environment of the server.
func (r *running) checks(ctx context.Context, p *Pool, s *server) bool {
	r.checking.Lock()
	defer r.checking.Unlock()
	if r.checker == nil {
		policy := p.opts.cageOf(s.view, s.entry)
		if policy != nil {
			policy.State = "ephemeral"
		}
		at, err := p.which(ctx, s.view, s.entry, policy, s.entry.Checker)
		if err != nil {
			return true // the next query looks for it again
		}
		found := at[0] != ""
		r.checker = &found
	}
	return *r.checker
}

// works reports whether the server runs and its start is complete.
func (s *server) works() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil && !s.run.over()
}

// folderFiles is the maximum number of files of one language in one query for diagnostics.
const folderFiles = 200

// diagnose returns the diagnostics of files with at least the given severity.
func (r *running) diagnose(ctx context.Context, list []string, severity int, a *Answer) error {
	a.Diagnostics = nil
	if len(list) > folderFiles {
		a.partial("%d of %d files were looked at; name a folder with fewer.", folderFiles, len(list))
		list = list[:folderFiles]
	}
	for _, path := range list { // the server works on all files while the first answer is awaited
		if _, err := r.client.Open(path); errors.Is(err, lsp.ErrServer) {
			return err
		}
	}
	for _, path := range list {
		doc, found, err := r.client.Diagnose(ctx, path)
		if errors.Is(err, fault.FileNotFound) && len(list) > 1 {
			continue // the file was removed meanwhile
		}
		if errors.Is(err, lsp.ErrSilent) {
			a.partial("The language server says nothing about the present content of some files; it may be as before.")
			err = nil
		}
		var refused *lsp.Refusal
		if errors.As(err, &refused) && len(list) > 1 {
			a.partial("The language server refuses some files: %s", sentence(refused.Message))
			continue
		}
		if err != nil {
			return err
		}
		for _, d := range found {
			if severity > 0 && d.Severity > severity {
				continue
			}
			d.Range = r.client.UTF16(doc.Text, d.Range)
			a.Diagnostics = append(a.Diagnostics, FileDiagnostic{path, d})
		}
	}
	slices.SortStableFunc(a.Diagnostics, func(x, y FileDiagnostic) int { return order(x, y) })
	return nil
}

// order compares diagnostics by file and position.
func order(x, y FileDiagnostic) int {
	switch {
	case x.Path != y.Path:
		if x.Path < y.Path {
			return -1
		}
		return 1
	case x.Range.Start == y.Range.Start:
		return x.Severity - y.Severity
	case before(x.Range.Start, y.Range.Start):
		return -1
	}
	return 1
}

func before(p, q lsp.Position) bool {
	return p.Line < q.Line || p.Line == q.Line && p.Character < q.Character
}

package projects

import (
	"context"
	"errors"
	"strings"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/check"
	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// DSL is a project file in its state on disk.
type DSL struct {
	// Text is "" if the file is missing.
	Text string
	// SHA256 is the hash of the file in hex, "" if it is missing.
	SHA256 string
	// Valid is true if it compiles with the project's other files.
	Valid bool
	// At is the time of the compilation, in milliseconds.
	At int64
}

// DSL returns the present project file. It fails with not_found for a project that is not registered.
func (s *Service) DSL(ctx context.Context, owner, id string) (DSL, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return DSL{}, err
	}
	read, err := s.readFiles(ctx, p.Workspace, p.Path, []string{dsl.ProjectFile}, nil)
	if errors.Is(err, fault.NotFound) {
		return DSL{At: now()}, nil
	}
	if err != nil {
		return DSL{}, err
	}
	out := DSL{At: now()}
	if f := read.Files[0]; f.State == Found {
		out.Text, out.SHA256 = strings.ToValidUTF8(string(f.Content), "\uFFFD"), f.SHA256
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return DSL{}, err
	}
	_, err = s.compileFolder(ctx, p.Workspace, p.Path, cfg.ToolRules())
	if out.Valid = err == nil; err != nil && !isBroken(err) {
		return DSL{}, err
	}
	return out, nil
}

// Verdict is the result of compiling a project file: whether it compiles, with its errors and warnings.
type Verdict struct {
	Valid       bool
	Diagnostics []Diagnostic
}

// Errors returns the errors.
func (v Verdict) Errors() (list []Diagnostic) {
	for _, d := range v.Diagnostics {
		if !d.Warning {
			list = append(list, d)
		}
	}
	return list
}

// Refusal returns the error of a file that does not compile, with the reasons.
func (v Verdict) Refusal() *fault.Error { return dslInvalid(v.Diagnostics) }

// Warnings returns the warnings as sentences.
func (v Verdict) Warnings() []string { return warnings(v.Diagnostics) }

// CrossReferences returns, as sentences, the errors about names that do not match each other.
func (v Verdict) CrossReferences() []string {
	list := []string{}
	for _, d := range v.Diagnostics {
		if d.Kind == string(dsl.PrincipalScope) && !d.Warning {
			list = append(list, prefix(d.Path)+d.Message)
		}
	}
	return list
}

// textOf checks the text of a project file in a client's request.
func textOf(text *string) (string, error) {
	switch {
	case text == nil:
		return "", check.Field("dsl", "dsl must be the text of a project file.")
	case len(*text) > dsl.MaxFileSize:
		return "", fault.New(fault.PayloadTooLarge,
			"The project file has %d bytes; %d is the most.", len(*text), dsl.MaxFileSize).
			With("limit_bytes", dsl.MaxFileSize)
	}
	return *text, nil
}

// Validate checks the text of a project file by itself, under the operator's rules for tools: the files that it names
// count as present, and projects that it refers to are not read. It fails with validation_failed and payload_too_large.
func (s *Service) Validate(ctx context.Context, owner string, given *string) (Verdict, error) {
	text, err := textOf(given)
	if err != nil {
		return Verdict{}, err
	}
	var rules []catalogue.Switch
	if cfg := s.bindings(ctx, owner); cfg != nil {
		rules = cfg.ToolRules()
	}
	files := []dsl.File{{Path: dsl.ProjectFile, Present: true, Content: []byte(text)}, {Path: dsl.OverlayFile}}
	out, err := s.compile(ctx, "", files, rules)
	if err != nil {
		return Verdict{}, err
	}
	for _, p := range out.Wanted {
		if !isProjectFile(p) || p == dsl.LaunchFile {
			files = append(files, dsl.File{Path: p, Present: !isProjectFile(p)})
		}
	}
	if out, err = s.compile(ctx, "", files, rules); err != nil {
		return Verdict{}, err
	}
	return Verdict{Valid: !failed(out.Diagnostics), Diagnostics: out.Diagnostics}, nil
}

// Synthesis is a project as one document, or its errors.
type Synthesis struct {
	Verdict
	// YAML is "" if the project does not compile.
	YAML                      string
	HasOverlay, HasReferences bool
	// Tools are the root agent's tools, nil if the project does not compile.
	Tools []string
}

// Synthesize returns a project as one document, from its present files. It fails with not_found for a project that is
// not registered or has no project file, and with local_config_invalid.
func (s *Service) Synthesize(ctx context.Context, owner, id string) (Synthesis, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Synthesis{}, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Synthesis{}, err
	}
	c, err := s.compileFolder(ctx, p.Workspace, p.Path, cfg.ToolRules())
	if err != nil && !errors.Is(err, fault.DSLInvalid) {
		return Synthesis{}, err
	}
	out, err := compile.Synthesize(compile.Input{
		Files: c.sources, OperatorTools: cfg.ToolRules(),
		Catalogue: func() (catalogue.Tools, error) { return s.Workspace.Catalogue(ctx, p.Workspace) },
	})
	if err != nil {
		return Synthesis{}, err
	}
	return Synthesis{
		Verdict: Verdict{Valid: out.YAML != nil, Diagnostics: c.Diagnostics},
		YAML:    string(out.YAML), HasOverlay: out.HasOverlay, HasReferences: out.HasReferences, Tools: out.Tools,
	}, nil
}

// Written is the result of writing a project file.
type Written struct {
	Verdict
	// SHA256 is the hash of the file in hex, State the project's state, if the text was saved.
	SHA256 string
	State  State
	// Waits is true if the project stays on its approved version until other files are approved.
	Waits bool
}

// PutDSL replaces the project file, if the text compiles, and approves it, because the operator wrote it. Other files
// that wait for approval still wait. match is the SHA-256 in hex of the file to replace, "" for any. It fails with
// not_found, validation_failed, payload_too_large, local_config_invalid, with conflict if the text has the id of
// another project, or if match differs (details reason version_mismatch, sha256), and with file_busy while an agent
// writes the file.
func (s *Service) PutDSL(ctx context.Context, owner, id string, given *string, match string) (Written, error) {
	text, err := textOf(given)
	if err != nil {
		return Written{}, err
	}
	cfg, err := s.Config.Config(ctx, owner)
	if err != nil {
		return Written{}, err
	}
	for range saveTries {
		var w Written
		if w, err = s.putDSL(ctx, cfg, owner, id, text, match); !errors.Is(err, ErrOvertaken) {
			return w, err
		}
	}
	return Written{}, ErrOvertaken
}

func (s *Service) putDSL(ctx context.Context, cfg *localconfig.Config, owner, id, text, match string) (Written, error) {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return Written{}, err
	}
	c, err := s.compileWith(ctx, p, cfg.ToolRules(), text)
	if match != "" && match != c.was && err == nil {
		return Written{}, otherVersion(dsl.ProjectFile, c.was)
	}
	w := Written{Verdict: Verdict{Valid: err == nil, Diagnostics: c.Diagnostics}}
	switch {
	case errors.Is(err, fault.DSLInvalid):
		return w, nil
	case err != nil:
		return Written{}, err
	case c.ID != p.ID:
		return Written{}, Renamed(p.Path, p.ID, c.ID)
	}
	w.SHA256, err = s.Workspace.WriteProject(ctx, p.Workspace, p.Path, dsl.ProjectFile, []byte(text), c.was)
	if errors.Is(err, fault.FileChangedSinceRead) {
		return Written{}, ErrOvertaken
	}
	if err != nil {
		return Written{}, err
	}
	saved, err := s.takeWritten(ctx, cfg, p, c)
	if fault.CodeOf(err) == fault.Conflict && fault.From(err).Details["reason"] == approvalRequired {
		w.Waits, w.State = true, p.State
		return w, nil
	}
	w.State = saved.State
	return w, err
}

// takeWritten makes files with a project file that an operator has written the present version. The other files take
// effect if they are already approved, or need no approval; prompts keep their accepted texts.
func (s *Service) takeWritten(ctx context.Context, cfg *localconfig.Config, p Project, c compilation) (Project, error) {
	p, err := s.current(ctx, cfg, p)
	if err != nil {
		return p, err
	}
	x, err := s.compare(ctx, cfg, p, c)
	if err != nil {
		return p, err
	}
	if x.onlyWritten(p.Sources) {
		x.hash, x.takes = x.neutral, x.keeps
		saved, _, err := s.approve(ctx, cfg, p, x, ByOperator)
		return saved, err
	}
	saved, _, err := s.take(ctx, cfg, p, c)
	return saved, err
}

// onlyWritten reports whether every project file except the top one is unchanged since its approval.
func (x *candidate) onlyWritten(approved []dsl.File) bool {
	as := make(map[string]string, len(approved))
	for _, src := range approved {
		if src.Present && isProjectFile(src.Path) {
			as[src.Path] = string(src.Content)
		}
	}
	for _, src := range x.sources {
		if !isProjectFile(src.Path) || src.Path == dsl.ProjectFile || !src.Present {
			continue
		}
		if content, ok := as[src.Path]; !ok || content != string(src.Content) {
			return false
		}
	}
	return true
}

// otherVersion is the error for a file that is not the version in the request; now is its SHA-256, "" for a missing
// file.
func otherVersion(path, now string) *fault.Error {
	return fault.New(fault.Conflict, "%s is another version than the one to be replaced; read it again.", path).
		With("reason", "version_mismatch").With("path", path).With("sha256", now)
}

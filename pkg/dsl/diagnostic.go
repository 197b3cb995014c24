package dsl

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind is the class of a diagnostic.
type Kind string

// The kinds.
const (
	// ParseError: the file is not YAML or too large.
	ParseError Kind = "parse_error"
	// SchemaViolation: a value is invalid by the schema of the project file.
	SchemaViolation Kind = "schema_violation"
	// LegacyPlugins: a plugins key at the top of the file, its former position.
	LegacyPlugins Kind = "legacy_plugins_key"
	// InvalidValue: a value of the right shape does not fit another value.
	InvalidValue Kind = "invalid_value"
	// ProjectMissing: a project folder has no usable project file.
	ProjectMissing Kind = "project_missing"
	// NestedProjectMissing: a referenced folder has no usable project file.
	NestedProjectMissing Kind = "nested_project_missing"
	// CompileCycle: a project refers to itself, directly or through others.
	CompileCycle Kind = "compile_cycle"
	// DepthExceeded: the tree is deeper than [MaxDepth] or larger than [MaxAgents].
	DepthExceeded Kind = "compile_depth_exceeded"
	// OverridesForbiddenKey: the overrides of a project reference may not set this key.
	OverridesForbiddenKey Kind = "overrides_forbidden_key"
	// CageWiderThanParent: an agent asks for more than its parent has.
	CageWiderThanParent Kind = "cage_wider_than_parent"
	// BudgetWiderThanParent: a limit of a budget is higher than an ancestor's, so it has no effect; a warning.
	BudgetWiderThanParent Kind = "budget_wider_than_parent"
	// PromptRefused: a prompt path leads to a file that cannot be a prompt.
	PromptRefused Kind = "prompt_refused"
	// PrincipalScope: a root-only tool is enabled for another agent.
	PrincipalScope Kind = "principal_scope_violation"
	// ToolUnmatched: a tool pattern names no tool; a warning.
	ToolUnmatched Kind = "tool_pattern_unmatched"
	// CageDoubtful: a part of a cage has another effect than it appears to have; a warning.
	CageDoubtful Kind = "cage_doubtful"
	// Uncaged: a subagent runs without a cage; a warning.
	Uncaged Kind = "cage_disabled"
	// NotInForce: a key or a value is parsed but has no effect; a warning.
	NotInForce Kind = "not_in_force"
	// TooMany: there are more errors than the list holds.
	TooMany Kind = "too_many_errors"
)

// Severity is the severity of a diagnostic.
type Severity int

// The severities.
const (
	// Error means that the project cannot be used.
	Error Severity = iota
	// Warning means that the project can be used.
	Warning
)

// Position is a position in a file. The zero Position is unknown.
type Position struct {
	// File is relative to the project's root, with forward slashes.
	File string
	// Line and Column count from 1, columns in characters; both are 0 if a diagnostic is about the whole file.
	Line, Column int
}

// String returns file:line:column, without the unknown parts.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Diagnostic is an error in a project file, or a warning about it.
type Diagnostic struct {
	// Kind is its class.
	Kind Kind
	// Message is one sentence.
	Message string
	// Path is the tree path, such as primary.subagents.scraper.model; empty for the whole file.
	Path string
	// Pos is its position.
	Pos Position
	// Severity is its severity.
	Severity Severity
}

// String returns the diagnostic on one line.
func (d Diagnostic) String() string {
	s := d.Pos.String() + ": " + string(d.Kind) + ": "
	if d.Path != "" {
		s += d.Path + ": "
	}
	return s + d.Message
}

// maxErrors is the maximum number of listed errors, and of listed warnings; further ones are counted.
const maxErrors = 50

// diagnostics collects findings, each position and message once.
type diagnostics struct {
	list    []Diagnostic
	seen    map[Diagnostic]struct{}
	errors  int
	listed  [2]int
	dropped int
}

// add keeps diag unless it is a duplicate or the list is full; errors are counted even then.
func (d *diagnostics) add(diag Diagnostic) {
	if diag.Severity == Error {
		d.errors++
	}
	if _, dup := d.seen[diag]; dup {
		return
	}
	if d.listed[diag.Severity] >= maxErrors {
		d.dropped++
		return
	}
	if d.seen == nil {
		d.seen = map[Diagnostic]struct{}{}
	}
	d.seen[diag] = struct{}{}
	d.listed[diag.Severity]++
	d.list = append(d.list, diag)
}

func (d *diagnostics) errorf(kind Kind, pos Position, path, format string, args ...any) {
	d.add(Diagnostic{Kind: kind, Pos: pos, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (d *diagnostics) warnf(kind Kind, pos Position, path, format string, args ...any) {
	d.add(Diagnostic{Kind: kind, Pos: pos, Path: path, Message: fmt.Sprintf(format, args...), Severity: Warning})
}

func (d *diagnostics) failed() bool { return d.errors > 0 }

// sorted returns the diagnostics by file and position.
func (d *diagnostics) sorted() []Diagnostic {
	slices.SortStableFunc(d.list, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column), cmp.Compare(a.Path, b.Path))
	})
	if d.dropped > 0 {
		last := d.list[len(d.list)-1].Pos
		d.list = append(d.list, Diagnostic{
			Kind: TooMany, Pos: Position{File: last.File},
			Message: fmt.Sprintf("There are %d more problems; correct these first.", d.dropped),
		})
	}
	return d.list
}

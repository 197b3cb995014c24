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
	// ParseError is a file that is not YAML, or more of it than is read.
	ParseError Kind = "parse_error"
	// SchemaViolation is a value that the schema of the project file does not allow.
	SchemaViolation Kind = "schema_violation"
	// LegacyPlugins is a plugins key at the top of the file, where it used to stand.
	LegacyPlugins Kind = "legacy_plugins_key"
	// InvalidValue is a value of the right shape that makes no sense beside another one.
	InvalidValue Kind = "invalid_value"
	// ProjectMissing is a project folder without a usable project file.
	ProjectMissing Kind = "project_missing"
	// NestedProjectMissing is a referenced folder without a usable project file.
	NestedProjectMissing Kind = "nested_project_missing"
	// CompileCycle is a project that refers to itself, directly or through others.
	CompileCycle Kind = "compile_cycle"
	// DepthExceeded is a tree deeper than [MaxDepth] or larger than [MaxAgents].
	DepthExceeded Kind = "compile_depth_exceeded"
	// OverridesForbiddenKey is a key that the overrides of a project reference may not set.
	OverridesForbiddenKey Kind = "overrides_forbidden_key"
	// CageWiderThanParent is an agent that asks for more than the agent above it has.
	CageWiderThanParent Kind = "cage_wider_than_parent"
	// BudgetWiderThanParent is a limit of a budget that is higher than one above it, so that it never counts; a warning.
	BudgetWiderThanParent Kind = "budget_wider_than_parent"
	// PromptRefused is a prompt path to a file that cannot be a prompt.
	PromptRefused Kind = "prompt_refused"
	// PrincipalScope is a root-only tool switched on for another agent.
	PrincipalScope Kind = "principal_scope_violation"
	// ToolUnmatched is a tool pattern that names no tool; a warning.
	ToolUnmatched Kind = "tool_pattern_unmatched"
	// CageDoubtful is a part of a cage that has another effect than it seems to; a warning.
	CageDoubtful Kind = "cage_doubtful"
	// Uncaged is a subagent that runs without a cage; a warning.
	Uncaged Kind = "cage_disabled"
	// NotInForce is a key or a value that is read and that no part of kaged acts on yet; a warning.
	NotInForce Kind = "not_in_force"
	// TooMany says that there are more errors than are listed.
	TooMany Kind = "too_many_errors"
)

// Severity is how bad a diagnostic is.
type Severity int

// The severities.
const (
	// Error means that the project cannot be used.
	Error Severity = iota
	// Warning is worth knowing.
	Warning
)

// Position is a place in a file. The zero Position is nowhere.
type Position struct {
	// File is relative to the project's root, with forward slashes.
	File string
	// Line and Column count from 1, columns in characters; both are 0 where a diagnostic is about the file as a whole.
	Line, Column int
}

// String returns file:line:column, without the unknown parts.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Diagnostic is a mistake in a project file, or a warning about it.
type Diagnostic struct {
	// Kind is its class.
	Kind Kind
	// Message is one sentence.
	Message string
	// Path is the tree path, such as primary.subagents.scraper.model; empty for the whole file.
	Path string
	// Pos is where.
	Pos Position
	// Severity is how bad it is.
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

// maxErrors bounds how many errors are listed, and how many warnings; further ones are counted.
const maxErrors = 50

// diagnostics collects findings, each place and message once.
type diagnostics struct {
	list    []Diagnostic
	seen    map[Diagnostic]struct{}
	errors  int
	listed  [2]int
	dropped int
}

// add keeps diag unless it is known already or there are enough; errors are counted even then.
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

// sorted returns the diagnostics by file and place.
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

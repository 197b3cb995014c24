// Package tool has the basic types of tools: their interface, their calls, and their declaration in the catalogue.
//
// A [Tool] is a function with a schema. Its [Entry] has its requirements, purpose and other names. Package dispatch
// adds checks, locks and records around the call.
package tool

import (
	"context"
	"encoding/json"
	"errors"

	"kaged.dev/pkg/contract"

	"kaged.dev/pkg/workspace/cageview"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/schema"
)

// Tool is an action that an agent can call.
type Tool interface {
	// Name is the canonical dotted name.
	Name() string
	// Description is the text for the model.
	Description() string
	// Parameters is the schema of the input.
	Parameters() *schema.Schema
	// Run executes the call. A failure that the model can act on is an error of package fault. An error of the service,
	// and not of this call, is marked by [Infrastructure]. Run returns soon after ctx ends.
	Run(ctx context.Context, call *Call) (Result, error)
}

// Result is the answer to the model.
type Result struct {
	// Content is canonical JSON.
	Content string
	// IsError is true if Content is an error object.
	IsError bool
}

// Call is one call of a tool in the dispatcher. The caller sets the first group of fields; the dispatcher sets the
// second group before the tool runs.
type Call struct {
	// ID is unique in the invocation, Name is the tool's name or an alias, Input is the model's text.
	ID    string
	Name  string
	Input json.RawMessage
	// From is the caller.
	From contract.Caller
	// Grant is the fingerprint of an operator's approval, "" for none.
	Grant string
	// Emit shows output to people while the tool runs. It returns soon. One goroutine at a time may call it.
	Emit func(stream, text string)

	parsed *schema.Input
	// Params is a pointer to the tool's parameters, validated by the schema.
	Params any
	// Space are the paths that the tool may access, Access the rights of the caller's cage on them.
	Space  *paths.Space
	Access cageview.Access
	// Needs are the call's requirements. Paths are the resolved paths of the requirements of kind fs, in their order.
	Needs []Requirement
	Paths []paths.Path
	// Hold excludes all other calls from further paths until release is called; the paths already held stay held. It waits
	// for all paths together, for at most the time that a call waits for the paths in its requirements. Then it fails with
	// file_busy and holds none. Calls that hold several paths at once do not deadlock; a call that holds paths should not
	// hold further ones.
	Hold func(ctx context.Context, paths ...paths.Path) (release func(), err error)
	// System reports whether a real path is one of the operator's system paths. A change of such a path needs approval.
	System func(abs string) bool
	// Changed are the files that the tool has changed, for [Spec.After].
	Changed []paths.Path
	// Acted is true if the tool itself was called.
	Acted bool
	// after completes the result when the paths of the call are released. It is optional.
	after func(context.Context) (Result, error)
	// CageOver is true if a command of the call ended because the caller's cage ended.
	CageOver bool
	// Records are the audit records of the call until now.
	Records []contract.Record
}

// RootAgent is the tree path of a project's root agent.
const RootAgent = "primary"

// Record adds an audit record about the call. The caller and the request's id are added to the
// fields.
func (c *Call) Record(event string, fields map[string]any) {
	fields["call_id"] = c.ID
	c.Records = append(c.Records, c.From.Record(event, fields))
}

// Parsed returns the input, parsed at the first use. Its value must not be changed. One goroutine at a time may call
// it.
func (c *Call) Parsed() *schema.Input {
	if c.parsed == nil {
		c.parsed = schema.Parse(c.Input)
	}
	return c.parsed
}

// Finish completes the result of a call after its paths are released.
func (c *Call) Finish(ctx context.Context, r Result) (Result, error) {
	if c.after == nil {
		return r, nil
	}
	return c.after(ctx)
}

// Changing returns the path to use for a change: the path inside the cage if the caller's cage grants exactly this
// file. The tool passes every path that it changes through it, its own paths and those found below them.
func (c *Call) Changing(path paths.Path) paths.Path {
	path.InPlace = c.Access.GrantsFile(path.Abs())
	return path
}

// Owner is the owner of the call's commands.
func (c *Call) Owner() contract.Owner { return c.From.Owner(c.ID) }

// Infrastructure marks an error of the service, not of the call. The RPC fails with it instead of the tool.
func Infrastructure(err error) error { return infrastructure{err} }

type infrastructure struct{ error }

func (i infrastructure) Unwrap() error { return i.error }

// IsInfrastructure reports whether err is marked by [Infrastructure].
func IsInfrastructure(err error) bool {
	var i infrastructure
	return errors.As(err, &i)
}

// Package tool is the vocabulary of tools: their interface, their calls, and their declaration in
// the catalogue.
//
// A [Tool] is a function with a schema. Its requirements, purpose and other names stand in its
// [Entry]; package dispatch wraps checks, locks and records around it.
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

// Tool is an action an agent can call.
type Tool interface {
	// Name is the canonical dotted name.
	Name() string
	// Description is the text for the model.
	Description() string
	// Parameters is the schema of the input.
	Parameters() *schema.Schema
	// Run does the work. A failure the model can act on is an error of package fault; one that is not about this call but
	// about the machinery is marked by [Infrastructure]. Run returns soon after ctx ends.
	Run(ctx context.Context, call *Call) (Result, error)
}

// Result is the answer shown to the model.
type Result struct {
	// Content is canonical JSON.
	Content string
	// IsError says that Content is an error object.
	IsError bool
}

// Call is one call of a tool on its way through the dispatcher. The first group is as the caller sent it; the second is
// filled by the dispatcher before the tool runs.
type Call struct {
	// ID is unique in the invocation, Name is canonical or an alias, Input is the model's text.
	ID    string
	Name  string
	Input json.RawMessage
	// From is the caller.
	From contract.Caller
	// Grant is the fingerprint of an operator's approval, "" for none.
	Grant string
	// Emit shows people output while the tool runs. It never blocks for long and may be called from one goroutine at a
	// time.
	Emit func(stream, text string)

	// Params is a pointer to the tool's parameters, valid by its schema.
	Params any
	// Space are the paths the tool may reach and Access the rights of the caller's cage on them.
	Space  *paths.Space
	Access cageview.Access
	// Needs are the call's requirements, Paths the resolved paths of those about files, in their order.
	Needs []Requirement
	Paths []paths.Path
	// Hold excludes all other calls from paths unknown beforehand until release is called; those
	// that the call holds already stay held. It waits for all of them together as long as a call
	// waits for the paths in its requirements, then fails with file_busy and holds none. Calls that
	// hold several paths at once do not deadlock; a call that holds paths should not ask for more.
	Hold func(ctx context.Context, paths ...paths.Path) (release func(), err error)
	// System reports whether a real path is one of the operator's system paths, whose change needs
	// an approval.
	System func(abs string) bool
	// Changed are the files that the tool has changed, for [Spec.After].
	Changed []paths.Path
	// Acted says that the tool itself was reached.
	Acted bool
	// after completes the result once the paths of the call are free. It is optional.
	after func(context.Context) (Result, error)
	// CageOver says that a command of the call was ended with the caller's cage.
	CageOver bool
	// Records are the audit records of the call so far.
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

// Finish completes the result of a call once its paths are free.
func (c *Call) Finish(ctx context.Context, r Result) (Result, error) {
	if c.after == nil {
		return r, nil
	}
	return c.after(ctx)
}

// Changing returns a path as a change of it is to be made: in place where the caller's cage has this very file. Every
// path is taken through it that is changed, the call's own and those found below one.
func (c *Call) Changing(path paths.Path) paths.Path {
	path.InPlace = c.Access.GrantsFile(path.Abs())
	return path
}

// Owner is the owner of the call's commands.
func (c *Call) Owner() contract.Owner { return c.From.Owner(c.ID) }

// Infrastructure marks an error that is not the call's but the machinery's: the RPC fails with it instead of the tool.
func Infrastructure(err error) error { return infrastructure{err} }

type infrastructure struct{ error }

func (i infrastructure) Unwrap() error { return i.error }

// IsInfrastructure reports whether err was marked so.
func IsInfrastructure(err error) bool {
	var i infrastructure
	return errors.As(err, &i)
}

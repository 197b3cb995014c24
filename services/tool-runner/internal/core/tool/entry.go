package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/tool-runner/internal/core/schema"
)

// Category is the kind of a tool's effect.
type Category int

// The categories.
const (
	Read  Category = iota + 1 // it only looks
	Write                     // it changes files or runs commands
	Admin                     // it needs an operator's approval
)

// Source is where a tool comes from.
type Source string

// The sources.
const (
	Builtin Source = "builtin" // it is part of kaged
	CLI     Source = "cli"     // a command the operator declared
	Plugin  Source = "plugin"
)

// Entry is a tool as the catalogue holds it: the tool itself and everything others need to know about it. It is
// immutable.
type Entry struct {
	Tool
	// Source is where the tool comes from; Plugin names the plugin, for that source.
	Source Source
	Plugin string
	// Category is the kind of the tool's effect.
	Category Category
	// Requires are the tool's requirements, for people; Needs are those of one call.
	Requires []Requirement
	Needs    func(params any) []Requirement
	// Commands returns the commands of one call, for judging it before it runs; none for a tool
	// without commands.
	Commands func(params any) []Command
	// Named returns the commands of one call by the name of an approved entry of the project; nil
	// for a tool without such.
	Named func(call *Call) []Command
	// RootOnly tools are for the root agent only.
	RootOnly bool
	// DefaultRoot says that the root agent has the tool without being given it.
	DefaultRoot bool
	// Parallel says that calls of one turn may run side by side.
	Parallel bool
	// ReadWhen describes the calls that only look, of a tool that does more.
	ReadWhen toolcall.When
	// WaitWhen describes the calls that wait for events elsewhere.
	WaitWhen toolcall.When
	// Action returns the action of a call, for a tool whose actions are given one by one; nil for
	// one that is given as a whole.
	Action func(params any) string
	// OwnTimeout says that the tool bounds its time itself.
	OwnTimeout bool
	// Output is the schema of the result.
	Output *schema.Schema
	// Aliases are other names for the tool.
	Aliases []Alias
	// Limits are the bounds it works within, for people.
	Limits []Limit
	// Unavailable returns the error of every call on this machine in its present state, nil if
	// calls can work; itself nil for a tool that always works.
	Unavailable func() *fault.Error
	// Effect returns the effect of one call, apart from the commands it runs.
	Effect func(params any) Effect
	// Preview returns the changes of one call as a unified diff, "" if they cannot be shown. It is
	// called with the call's paths resolved, makes no change, and fails as the call itself would.
	Preview func(context.Context, *Call) (string, error)

	decode func(json.RawMessage) (any, error)
}

// Namespace is the part of the name before the first dot.
func (e *Entry) Namespace() string {
	namespace, _, _ := strings.Cut(e.Name(), ".")
	return namespace
}

// Decode reads the input of a call by one of the tool's names into the parameters the tool takes.
func (e *Entry) Decode(name string, input json.RawMessage) (any, error) {
	for i := range e.Aliases {
		if e.Aliases[i].Name == name {
			return e.Aliases[i].decode(input)
		}
	}
	return e.decode(input)
}

// GivenBy reports whether a list of names gives the tool, or one of its actions.
func (e *Entry) GivenBy(names []string) bool {
	return slices.Contains(names, e.Name()) || slices.ContainsFunc(e.Aliases, func(a Alias) bool {
		return a.Action != "" && slices.Contains(names, a.Name)
	})
}

// OnlyLooks reports whether a call by one of the tool's names only looks.
func (e *Entry) OnlyLooks(name string, input json.RawMessage) bool {
	if e.Category == Read {
		return true
	}
	for i := range e.Aliases {
		if a := &e.Aliases[i]; a.Name == name && a.Action != "" {
			return e.ReadWhen.Holds(fmt.Appendf(nil, `{"action":%q}`, a.Action))
		} else if a.Name == name {
			return a.ReadWhen.Holds(input)
		}
	}
	return e.ReadWhen.Holds(input)
}

// Reading returns the alias with a description of its calls that only look.
func (a Alias) Reading(when toolcall.When) Alias {
	a.ReadWhen = when
	return a
}

// Alias is another name for a tool with its own parameters, which are adapted to the tool's. Everything else is the
// tool's.
type Alias struct {
	Name, Description string
	Input             *schema.Schema
	// ReadWhen describes the calls by this name that only look.
	ReadWhen toolcall.When
	// Action is the tool's action that the alias fixes, "" for another name of the whole tool. A call by it looks only if
	// the tool's with this action does.
	Action string

	decode func(json.RawMessage) (any, error)
}

// AliasOf declares an alias with parameters A; adapt turns them into the tool's.
func AliasOf[A, P any](name, description string, adapt func(A) P) Alias {
	input := schema.Of[A]()
	return Alias{
		Name:        name,
		Description: strings.TrimSpace(description),
		Input:       input,
		decode: func(raw json.RawMessage) (any, error) {
			var a A
			if err := input.Decode(raw, &a); err != nil {
				return nil, err
			}
			p := adapt(a)
			return &p, nil
		},
	}
}

// ActionOf declares an alias that fixes an action of the tool name; adapt fills in the parameters and the action.
func ActionOf[A, P any](name, action, description string, adapt func(A) P) Alias {
	a := AliasOf(name+"."+action, description, adapt)
	a.Action = action
	return a
}

// AliasWith declares an alias of a tool with parameters described by input; it takes the same.
func AliasWith(name, description string, input *schema.Schema) Alias {
	return Alias{
		Name:        name,
		Description: strings.TrimSpace(description),
		Input:       input,
		decode: func(raw json.RawMessage) (any, error) {
			var v Values
			if err := input.Decode(raw, &v); err != nil {
				return nil, err
			}
			return &v, nil
		},
	}
}

// Command is a command of a call: Shell is text for a shell, Argv a program with its arguments; one
// of them is set. Typed marks that Shell is typed into a program that may be a shell or another.
type Command struct {
	Shell string
	Argv  []string
	Typed bool
	// Env are the variables that the caller sets for it.
	Env map[string]string
}

// Spec declares a tool with parameters P and result R.
type Spec[P, R any] struct {
	Name, Description string
	Category          Category
	RootOnly          bool
	DefaultRoot       bool
	Parallel          bool
	ReadWhen          toolcall.When
	WaitWhen          toolcall.When
	// Action returns a call's action, for a tool with aliases that fix one; else nil.
	Action     func(*P) string
	OwnTimeout bool
	Requires   []Requirement
	// Needs fills in the requirements of one call; nil means that Requires holds for every call as it is.
	Needs func(*P) []Requirement
	// Commands returns the commands of one call; nil for a tool without commands.
	Commands func(*P) []Command
	// Named returns the commands of one call by the name of an approved entry of the project. It is
	// optional.
	Named func(*Call, *P) []Command
	// Effect returns the effect of one call; nil if the tool's category is enough.
	Effect func(*P) Effect
	// Preview returns the changes of one call; nil if they cannot be shown.
	Preview func(context.Context, *Call, *P) (string, error)
	Aliases []Alias
	// Limits are the bounds it works within, for people.
	Limits []Limit
	Run    func(context.Context, *Call, *P) (R, error)
	// After completes the result of a call that has succeeded, once its paths are free. It is optional.
	After func(context.Context, *Call, *R)
}

// Define returns the catalogue's entry for a spec.
func Define[P, R any](s Spec[P, R]) *Entry { return define(s, schema.Of[P]()) }

// Values are parameters that are known only at run time, by name: strings, booleans, int64 and float64, lists and
// objects.
type Values map[string]any

// DefineWith returns the entry for a spec with parameters described by input.
func DefineWith[R any](s Spec[Values, R], input *schema.Schema) *Entry { return define(s, input) }

func define[P, R any](s Spec[P, R], input *schema.Schema) *Entry {
	t := &function[P, R]{
		name: s.Name, description: strings.TrimSpace(s.Description), input: input, run: s.Run, after: s.After,
	}
	needs := func(any) []Requirement { return s.Requires }
	if s.Needs != nil {
		needs = func(params any) []Requirement { return s.Needs(params.(*P)) }
	}
	commands := func(any) []Command { return nil }
	if s.Commands != nil {
		commands = func(params any) []Command { return s.Commands(params.(*P)) }
	}
	var named func(*Call) []Command
	if s.Named != nil {
		named = func(call *Call) []Command { return s.Named(call, call.Params.(*P)) }
	}
	effect := func(any) Effect { return Effect{Category: s.Category} }
	if s.Effect != nil {
		effect = func(params any) Effect { return s.Effect(params.(*P)) }
	}
	preview := func(context.Context, *Call) (string, error) { return "", nil }
	if s.Preview != nil {
		preview = func(ctx context.Context, call *Call) (string, error) { return s.Preview(ctx, call, call.Params.(*P)) }
	}
	var action func(any) string
	if s.Action != nil {
		action = func(params any) string { return s.Action(params.(*P)) }
	}
	return &Entry{
		Action: action,
		Effect: effect, Preview: preview,
		Tool: t, Source: Builtin, Category: s.Category, Requires: s.Requires, Needs: needs, Commands: commands, Named: named,
		RootOnly:    s.RootOnly,
		DefaultRoot: s.DefaultRoot, Parallel: s.Parallel, ReadWhen: s.ReadWhen, WaitWhen: s.WaitWhen,
		OwnTimeout: s.OwnTimeout, Output: schema.Of[R](), Aliases: s.Aliases,
		Limits: s.Limits, decode: t.decode,
	}
}

// function is a Tool made of a Go function.
type function[P, R any] struct {
	name, description string
	input             *schema.Schema
	run               func(context.Context, *Call, *P) (R, error)
	after             func(context.Context, *Call, *R)
}

func (f *function[P, R]) Name() string               { return f.name }
func (f *function[P, R]) Description() string        { return f.description }
func (f *function[P, R]) Parameters() *schema.Schema { return f.input }

func (f *function[P, R]) decode(input json.RawMessage) (any, error) {
	p := new(P)
	if err := f.input.Decode(input, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Run calls the function and renders its result as canonical JSON.
func (f *function[P, R]) Run(ctx context.Context, call *Call) (Result, error) {
	value, err := f.run(ctx, call, call.Params.(*P))
	if err != nil {
		return Result{}, err
	}
	if f.after != nil {
		call.after = func(ctx context.Context) (Result, error) {
			f.after(ctx, call, &value)
			return result(value)
		}
	}
	return result(value)
}

func result(value any) (Result, error) {
	content, err := JSON(value)
	return Result{Content: content}, err
}

// JSON renders a value in the model's form: compact, fields in their order, no HTML escapes,
// invalid UTF-8 replaced.
func JSON(value any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

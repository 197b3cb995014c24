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
	Read  Category = iota + 1 // it only reads
	Write                     // it changes files or runs commands
	Admin                     // it needs an operator's approval
)

// Source is the origin of a tool.
type Source string

// The sources.
const (
	Builtin Source = "builtin" // a part of kaged
	CLI     Source = "cli"     // a command that the operator declared
	Plugin  Source = "plugin"
)

// Entry is a tool in the catalogue, with its properties. It is immutable.
type Entry struct {
	Tool
	// Source is the origin of the tool. Plugin is the name of the plugin if a plugin provides the tool.
	Source Source
	Plugin string
	// Category is the kind of the tool's effect.
	Category Category
	// Requires are the tool's requirements, as people read them. Needs are those of one call.
	Requires []Requirement
	Needs    func(params any) []Requirement
	// Commands returns the commands of one call, to be judged before the call runs. It is nil for a tool without commands.
	Commands func(params any) []Command
	// Named returns the commands of a call that names an approved entry of the project; nil for a tool without such
	// entries.
	Named func(call *Call) []Command
	// RootOnly tools are for the root agent only.
	RootOnly bool
	// DefaultRoot is true if the root agent has the tool without a grant.
	DefaultRoot bool
	// Parallel is true if calls of one turn may run at the same time.
	Parallel bool
	// ReadWhen describes the read-only calls of a tool that can also make changes.
	ReadWhen toolcall.When
	// WaitWhen describes the calls that wait for external events.
	WaitWhen toolcall.When
	// Action returns the action of a call, for a tool with actions that are granted one by one; nil for a tool that is
	// granted completely.
	Action func(params any) string
	// OwnTimeout is true if the tool limits its time itself.
	OwnTimeout bool
	// Output is the schema of the result.
	Output *schema.Schema
	// Aliases are other names for the tool.
	Aliases []Alias
	// Limits are the tool's limits, as people read them.
	Limits []Limit
	// Unavailable returns the error of every call on this machine in its present state, nil if calls can work. The
	// function is nil for a tool that always works.
	Unavailable func() *fault.Error
	// Effect returns the effect of one call, without the commands that it runs.
	Effect func(params any) Effect
	// Preview returns the changes of one call as a unified diff, "" if they cannot be shown. The paths of the call are
	// resolved before. Preview makes no change, and fails as the call itself would.
	Preview func(context.Context, *Call) (string, error)

	decode func(*schema.Input) (any, error)
}

// Namespace is the part of the name before the first dot.
func (e *Entry) Namespace() string {
	namespace, _, _ := strings.Cut(e.Name(), ".")
	return namespace
}

// Decode reads the input of a call by one of the tool's names into the tool's parameters.
func (e *Entry) Decode(name string, input *schema.Input) (any, error) {
	for i := range e.Aliases {
		if e.Aliases[i].Name == name {
			return e.Aliases[i].decode(input)
		}
	}
	return e.decode(input)
}

// GivenBy reports whether a list of names grants the tool, or one of its actions.
func (e *Entry) GivenBy(names []string) bool {
	return slices.Contains(names, e.Name()) || slices.ContainsFunc(e.Aliases, func(a Alias) bool {
		return a.Action != "" && slices.Contains(names, a.Name)
	})
}

// OnlyLooks reports whether a call by one of the tool's names is read-only.
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

// Reading returns the alias with a description of its read-only calls.
func (a Alias) Reading(when toolcall.When) Alias {
	a.ReadWhen = when
	return a
}

// Alias is another name for a tool with its own parameters, which are converted to the tool's parameters. All other
// properties are the tool's.
type Alias struct {
	Name, Description string
	Input             *schema.Schema
	// ReadWhen describes the read-only calls by this name.
	ReadWhen toolcall.When
	// Action is the tool's action that the alias sets, "" for another name of the whole tool. A call by the alias is
	// read-only only if the tool's call with this action is.
	Action string

	decode func(*schema.Input) (any, error)
}

// AliasOf declares an alias with parameters A. adapt converts them to the tool's parameters.
func AliasOf[A, P any](name, description string, adapt func(A) P) Alias {
	input := schema.Of[A]()
	return Alias{
		Name:        name,
		Description: strings.TrimSpace(description),
		Input:       input,
		decode: func(raw *schema.Input) (any, error) {
			var a A
			if err := input.Decode(raw, &a); err != nil {
				return nil, err
			}
			p := adapt(a)
			return &p, nil
		},
	}
}

// ActionOf declares an alias of the tool name that sets an action. adapt sets the parameters and the action.
func ActionOf[A, P any](name, action, description string, adapt func(A) P) Alias {
	a := AliasOf(name+"."+action, description, adapt)
	a.Action = action
	return a
}

// AliasWith declares an alias of a tool with parameters described by input. The alias has the same parameters.
func AliasWith(name, description string, input *schema.Schema) Alias {
	return Alias{
		Name:        name,
		Description: strings.TrimSpace(description),
		Input:       input,
		decode: func(raw *schema.Input) (any, error) {
			var v Values
			if err := input.Decode(raw, &v); err != nil {
				return nil, err
			}
			return &v, nil
		},
	}
}

// Command is a command of a call. Either Shell, a text for a shell, or Argv, a program with its arguments, is set.
// Typed is true if Shell is typed into a running program, which may or may not be a shell.
type Command struct {
	Shell string
	Argv  []string
	Typed bool
	// MaxBytes is the maximum size of Shell, 0 for any size. A longer text is refused before it is judged, because judging
	// it takes long.
	MaxBytes int
	// Env are the variables that the caller sets for the command.
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
	// Action returns a call's action, for a tool with aliases that set one; otherwise nil.
	Action     func(*P) string
	OwnTimeout bool
	Requires   []Requirement
	// Needs adds the requirements of one call; nil means that Requires applies to every call unchanged.
	Needs func(*P) []Requirement
	// Commands returns the commands of one call; nil for a tool without commands.
	Commands func(*P) []Command
	// Named returns the commands of a call that names an approved entry of the project. It is optional.
	Named func(*Call, *P) []Command
	// Effect returns the effect of one call; nil if it is the tool's category.
	Effect func(*P) Effect
	// Preview returns the changes of one call; nil if they cannot be shown.
	Preview func(context.Context, *Call, *P) (string, error)
	Aliases []Alias
	// Limits are the tool's limits, as people read them.
	Limits []Limit
	Run    func(context.Context, *Call, *P) (R, error)
	// After completes the result of a successful call when its paths are released. It is optional.
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

// function is a Tool implemented by a Go function.
type function[P, R any] struct {
	name, description string
	input             *schema.Schema
	run               func(context.Context, *Call, *P) (R, error)
	after             func(context.Context, *Call, *R)
}

func (f *function[P, R]) Name() string               { return f.name }
func (f *function[P, R]) Description() string        { return f.description }
func (f *function[P, R]) Parameters() *schema.Schema { return f.input }

func (f *function[P, R]) decode(input *schema.Input) (any, error) {
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
		return Result{}, nil // made after the call, with what after adds
	}
	return result(value)
}

func result(value any) (Result, error) {
	content, err := JSON(value)
	return Result{Content: content}, err
}

// JSON returns a value in the form for the model: compact, with fields in their order, no HTML escapes, and invalid
// UTF-8 replaced.
func JSON(value any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

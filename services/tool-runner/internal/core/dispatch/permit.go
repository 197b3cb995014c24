package dispatch

import (
	"context"
	"fmt"
	"path/filepath"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/cageview"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// permitting resolves the paths of a call and checks each of its requirements against the caller's cage.
func permitting(rules paths.Rules, views *cageview.Views) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			space, err := paths.Open(call.From.Root, rules)
			if err != nil {
				return tool.Result{}, tool.Infrastructure(err)
			}
			defer space.Close()
			call.Space, call.Access = space, views.Access(call.From.Cage, space.Root())
			call.Needs = entry.Needs(call.Params)
			for _, need := range call.Needs {
				if err := permit(call, need); err != nil {
					return tool.Result{}, err
				}
			}
			return next.Run(ctx, call)
		}}
	}
}

func permit(call *tool.Call, need tool.Requirement) error {
	if need.Kind != tool.FS {
		if err := grant(call.Access, need); err != nil {
			return err
		}
		return nil
	}
	path, err := call.Space.Resolve(need.Field, need.Path)
	if err != nil {
		return because(err, need)
	}
	path = call.Changing(path)
	call.Paths = append(call.Paths, path)
	if err := call.Access.Err(); err != nil {
		return fault.From(err).With("required", need.String())
	}
	if !call.Access.Allows(path.Abs(), need.Mode == tool.ReadWrite) && !(need.Part && call.Access.Touches(path.Abs())) {
		if place, ok := call.Access.Protects(path.Abs()); ok && need.Mode == tool.ReadWrite {
			return protected(need, call.Space, place)
		}
		return denied(need)
	}
	return nil
}

// grant checks a requirement other than a path against a cage.
func grant(access cageview.Access, need tool.Requirement) *fault.Error {
	switch need.Kind {
	case tool.Seccomp:
		if have := access.Seccomp(); have != "" && have != need.Name {
			text := fmt.Sprintf("requires %s, have %s", need.Name, have)
			return fault.New(fault.SeccompInsufficient, "The agent's cage is too narrow for this tool: %s.", text).
				With("detail", text).With("required", need.String())
		}
	case tool.Net:
		if !access.Reaches(need.Name) {
			return denied(need)
		}
	case tool.Capability:
		if !access.Has(need.Name) {
			return denied(need)
		}
	}
	return nil
}

func denied(need tool.Requirement) *fault.Error {
	return fault.New(fault.CapabilityDenied, "The agent's cage does not grant %s.", need).With("required", need.String())
}

// protected is the refusal of a protected path in a granted folder.
func protected(need tool.Requirement, space *paths.Space, place string) *fault.Error {
	name := place
	if rel, err := filepath.Rel(space.Root(), place); err == nil && filepath.IsLocal(rel) {
		name = paths.Show(rel)
	}
	return fault.New(fault.CapabilityDenied, "The agent's cage does not grant %s: %s is protected, because tools "+
		"outside the cage run code that they find there. "+
		"Leave it as it is, or ask the operator to name it in the cage.", need, name).
		With("required", need.String()).
		With("protected", name)
}

// because adds the requirement to a denial by the operator's rules, so that all denials have the same form.
func because(err error, need tool.Requirement) error {
	if f := fault.From(err); f.Code == fault.CapabilityDenied {
		return f.With("required", need.String())
	}
	return err
}

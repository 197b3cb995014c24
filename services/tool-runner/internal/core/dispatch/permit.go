package dispatch

import (
	"context"
	"fmt"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/cage"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// permitting resolves the paths of a call and holds each of its requirements against the caller's cage.
func permitting(rules paths.Rules) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			space, err := paths.Open(call.From.Root, rules)
			if err != nil {
				return tool.Result{}, tool.Infrastructure(err)
			}
			defer space.Close()
			call.Space, call.Access = space, cage.For(call.From.Cage, space)
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
	allowed := true
	switch need.Kind {
	case tool.FS:
		path, err := call.Space.Resolve(need.Field, need.Path)
		if err != nil {
			return because(err, need)
		}
		call.Paths = append(call.Paths, path)
		allowed = call.Access.Allows(path.Abs(), need.Mode == tool.ReadWrite) || need.Part && call.Access.Touches(path.Abs())
	case tool.Seccomp:
		if have := call.Access.Seccomp(); have != "" && have != need.Name {
			text := fmt.Sprintf("requires %s, have %s", need.Name, have)
			return fault.New(fault.SeccompInsufficient, "The agent's cage is too narrow for this tool: %s.", text).
				With("detail", text).With("required", need.String())
		}
	case tool.Net:
		allowed = call.Access.Reaches(need.Name)
	case tool.Capability:
		allowed = call.Access.Has(need.Name)
	}
	if !allowed {
		return fault.New(fault.CapabilityDenied, "The agent's cage does not grant %s.", need).With("required", need.String())
	}
	return nil
}

// because adds to a denial by the operator's rules what was required, as every denial says it.
func because(err error, need tool.Requirement) error {
	if f := fault.From(err); f.Code == fault.CapabilityDenied {
		return f.With("required", need.String())
	}
	return err
}

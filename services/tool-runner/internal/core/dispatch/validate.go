package dispatch

import (
	"context"
	"slices"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// validating decodes the input by the schema of the used name.
func validating(entry *tool.Entry, next tool.Tool) tool.Tool {
	return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
		params, err := entry.Decode(call.Name, call.Parsed())
		if err != nil {
			return tool.Result{}, err
		}
		call.Params = params
		return next.Run(ctx, call)
	}}
}

// scoping restricts root-only tools to the root agent. The project file refuses them earlier; this is for calls without
// that check.
func scoping(entry *tool.Entry, next tool.Tool) tool.Tool {
	if !entry.RootOnly {
		return next
	}
	return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
		if call.From.Agent != tool.RootAgent {
			return tool.Result{}, rootOnly(entry)
		}
		return next.Run(ctx, call)
	}}
}

// giving restricts an agent that has a part of a tool to its actions.
func giving(entry *tool.Entry, next tool.Tool) tool.Tool {
	if entry.Action == nil {
		return next
	}
	return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
		action := entry.Name() + "." + entry.Action(call.Params)
		if !slices.Contains(call.From.Tools, entry.Name()) && !slices.Contains(call.From.Tools, action) {
			return tool.Result{}, noTool(action)
		}
		return next.Run(ctx, call)
	}}
}

func rootOnly(entry *tool.Entry) *fault.Error {
	return fault.New(fault.PrincipalScopeViolation, "Only the root agent may use %s.", entry.Name()).
		With("required", "principal_scope:root-only")
}

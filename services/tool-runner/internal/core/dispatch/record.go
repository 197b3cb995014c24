package dispatch

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// recording writes down that a tool was called and what came of it. entry is nil for a call that named no tool.
func recording(limit int) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			began := time.Now()
			call.Record(audit.ToolCalled, named(entry, call, map[string]any{"params": audit.Params(call.Input, limit)}))
			result, err := next.Run(ctx, call)
			if denied, ok := denial(err); ok {
				call.Record(audit.ToolDenied, named(entry, call, map[string]any{
					"denied_capability": denied, "cage_summary": call.From.Cage.Summary(),
				}))
				return result, err
			}
			fields := map[string]any{"duration_ms": time.Since(began).Milliseconds(), "success": err == nil}
			if err != nil {
				fields["error_code"] = fault.CodeOf(err).String()
			}
			call.Record(audit.ToolCompleted, named(entry, call, fields))
			return result, err
		}}
	}
}

// named adds the tool's canonical name, and the alias if the call used one.
func named(entry *tool.Entry, call *tool.Call, fields map[string]any) map[string]any {
	fields["tool_name"] = call.Name
	if entry != nil && entry.Name() != call.Name {
		fields["tool_name"], fields["alias"] = entry.Name(), call.Name
	}
	return fields
}

// denial returns what a refused call would have needed, and whether it was refused at all.
func denial(err error) (string, bool) {
	for _, code := range [...]fault.Code{fault.CapabilityDenied, fault.SeccompInsufficient, fault.PrincipalScopeViolation} {
		if errors.Is(err, code) {
			required, _ := fault.From(err).Details["required"].(string)
			return required, true
		}
	}
	return "", false
}

package dispatch

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// recording records a tool call and its outcome. entry is nil for a call with an unknown tool.
func recording(limit int) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			began := time.Now()
			if call.Grant == "" { // else it was recorded when the question was asked
				call.Record(audit.ToolCalled, named(entry, call, called(call, limit)))
			}
			result, err := next.Run(ctx, call)
			var needs *tool.NeedsApproval
			if errors.As(err, &needs) {
				call.Record(audit.ApprovalRequested, named(entry, call, asked(&needs.Approval, limit)))
				return result, err
			}
			if denied, ok := denial(err); ok {
				call.Record(audit.ToolDenied, named(entry, call, map[string]any{
					"denied_capability": denied, "cage_summary": call.From.Cage.Summary(),
				}))
				return result, err
			}
			call.Record(audit.ToolCompleted, named(entry, call, contract.CompletedFields(call.Name, time.Since(began), err)))
			return result, err
		}}
	}
}

// called returns the recorded fields of a call.
func called(call *tool.Call, limit int) map[string]any {
	input := call.Parsed()
	return contract.CalledFields(call.Name, redact.Parsed(input.Text, input.Value, input.Err, limit))
}

// asked returns the recorded fields of a question to the operator.
func asked(a *contract.Subject, limit int) map[string]any {
	fields := map[string]any{"reasons": anys(a.Reasons), "paths": anys(a.Paths)}
	if a.Command != "" {
		fields["command"], fields["cwd"] = redact.Shorten(a.Command, limit), a.Cwd
	}
	return fields
}

// anys returns texts as a list of plain JSON types, masked.
func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = redact.Mask(t)
	}
	return list
}

// named adds the tool's canonical name, and the alias if the call used one.
func named(entry *tool.Entry, call *tool.Call, fields map[string]any) map[string]any {
	fields["tool_name"] = call.Name
	if entry != nil && entry.Name() != call.Name {
		fields["tool_name"], fields["alias"] = entry.Name(), call.Name
	}
	return fields
}

// denial returns the missing requirement of a refused call, and whether the call was refused.
func denial(err error) (string, bool) {
	for _, code := range [...]fault.Code{
		fault.CapabilityDenied, fault.SeccompInsufficient, fault.PrincipalScopeViolation, fault.CommandBlocked,
		fault.ApprovalRequired,
	} {
		if errors.Is(err, code) {
			required, _ := fault.From(err).Details["required"].(string)
			return required, true
		}
	}
	return "", false
}

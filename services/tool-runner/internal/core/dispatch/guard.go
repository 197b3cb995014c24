package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// guarding converts a panic to a failed call, so that one tool's defect does not end the others.
func guarding(log *slog.Logger) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (result tool.Result, err error) {
			defer func() {
				if p := recover(); p != nil {
					log.ErrorContext(ctx, "tool panicked", "tool", entry.Name(), "request_id", call.From.RequestID,
						"call_id", call.ID, "panic", p, "stack", string(debug.Stack()))
					result = tool.Result{}
					err = fault.New(fault.Internal, "The tool %s failed inside kaged; the log has the cause.", entry.Name())
				}
			}()
			return next.Run(ctx, call)
		}}
	}
}

// bounding ends calls of tools without their own time limit.
func bounding(limit time.Duration) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		if entry.OwnTimeout {
			return next
		}
		return wrapped{next, func(ctx context.Context, call *tool.Call) (result tool.Result, err error) {
			err = within(ctx, limit, entry, func(ctx context.Context) (err error) {
				result, err = next.Run(ctx, call)
				return err
			})
			return result, err
		}}
	}
}

// within runs a part of a call with a time limit.
func within(ctx context.Context, limit time.Duration, entry *tool.Entry, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(bounded)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fault.Wrap(err, fault.Timeout, "The tool %s was stopped after %s.", entry.Name(), limit)
	}
	return err
}

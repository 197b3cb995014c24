package tool

import (
	"context"
	"errors"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// NotExecuted returns the reason why a command, named called in a sentence, has no exit status. An error that the model
// can act on becomes a result; an unavailable executor does not.
func NotExecuted(ctx context.Context, err error, called string, timeout time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(
			err,
			fault.Timeout,
			"%s ran longer than %s and the sandbox did not report its end.",
			called,
			timeout,
		)
	case errors.Is(err, fault.ShellSpawnFailed),
		errors.Is(err, fault.CageUnavailable),
		errors.Is(err, fault.CagePolicyInvalid),
		errors.Is(err, fault.Interrupted),
		errors.Is(err, fault.InvalidParams),
		errors.Is(err, fault.RateLimited):
		return err
	}
	return Infrastructure(err)
}

// EndedBy returns the error for a command that was ended from outside for the given reason.
func EndedBy(reason contract.Reason) error {
	switch reason {
	case contract.ReasonCancelled, contract.ReasonOwnerEnded:
		return Infrastructure(fault.New(fault.Cancelled, "The command was cancelled."))
	case contract.ReasonLost:
		return fault.New(
			fault.Interrupted,
			"The command was cut off because its sandbox went away; what it had done is done.",
		)
	}
	return nil
}

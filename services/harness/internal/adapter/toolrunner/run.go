package toolrunner

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// holding are the pauses between attempts to hold a run after the loss of a tool runner, which may be restarting.
var holding = retry.Pauses{First: 50 * time.Millisecond, Last: 5 * time.Second, Spread: true}

// HoldRun implements [loop.Tools].
func (r *Runner) HoldRun(ctx context.Context, caller *contract.Caller, known func(), told func(contract.DebugEvent)) {
	known = sync.OnceFunc(known)
	defer known()
	for range holding.Each(ctx) {
		err := r.holdRun(ctx, caller, known, told)
		if !errors.Is(err, io.EOF) && !errors.Is(fault.From(err), fault.Unavailable) {
			return // it would be refused again
		}
		known()
	}
}

// KeepRun implements [loop.Tools].
func (r *Runner) KeepRun(ctx context.Context, caller *contract.Caller) error {
	_, err := r.client.KeepRun(ctx, &toolrunnerv1.KeepRunRequest{SessionId: caller.SessionID, RunId: caller.RunID})
	return err
}

// holdRun holds the run by one stream and returns the reason for the stream's end.
func (r *Runner) holdRun(
	ctx context.Context, caller *contract.Caller, known func(), told func(contract.DebugEvent),
) error {
	r.hold(ctx)
	stream, err := r.client.HoldRun(ctx, &toolrunnerv1.HoldRunRequest{Context: toolwire.Caller(caller)})
	for err == nil {
		var event *toolrunnerv1.HoldRunEvent
		if event, err = stream.Recv(); err != nil {
			break
		}
		known()
		if d := event.GetDebug(); d != nil {
			told(contract.DebugEventFromProto(d))
		}
	}
	return err
}

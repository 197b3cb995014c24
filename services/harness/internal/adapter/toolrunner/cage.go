package toolrunner

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core/loop"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Hold implements [loop.Tools].
func (r *Runner) Hold(ctx context.Context, id string, caller *loop.ToolContext) (loop.Cage, error) {
	stream, err := r.client.HoldCage(ctx, &toolrunnerv1.HoldCageRequest{CageId: id, Context: contextToProto(caller)})
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, brokenOff(err, false)
	}
	opened := first.GetOpened()
	if opened == nil {
		return nil, fault.New(fault.CageUnavailable, "The cage of the agent %s ended before it was there: %s.", caller.Caller, first.GetEnded().GetReason())
	}
	return &cage{stream, loop.CageOpened{
		ID: opened.GetCageId(), Tier: opened.GetTier(), BestEffort: opened.GetBestEffort(), Summary: opened.GetSummary(),
	}}, nil
}

// cage implements [loop.Cage].
type cage struct {
	stream grpc.ServerStreamingClient[toolrunnerv1.HoldCageEvent]
	opened loop.CageOpened
}

// Opened implements loop.Cage.
func (c *cage) Opened() loop.CageOpened { return c.opened }

// Next implements loop.Cage. An event this build does not know is passed over.
func (c *cage) Next() (any, error) {
	for {
		event, err := c.stream.Recv()
		if err != nil {
			return nil, err
		}
		switch {
		case event.GetNetwork() != nil:
			a := event.GetNetwork()
			return loop.Attempt{
				At: time.UnixMilli(a.GetAt()), Target: a.GetTarget(), Allowed: a.GetAllowed(), Rule: a.GetRule(), Count: max(a.GetCount(), 1),
			}, nil
		case event.GetEnded() != nil:
			_, _ = c.stream.Recv() // the end of the stream follows at once
			return loop.CageEnd{Reason: event.GetEnded().GetReason()}, nil
		}
	}
}

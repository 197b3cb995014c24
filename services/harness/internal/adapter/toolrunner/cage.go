package toolrunner

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core/loop"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
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
	return &cage{r.client, caller.SessionID, stream, loop.CageOpened{
		ID: opened.GetCageId(), Tier: opened.GetTier(), BestEffort: opened.GetBestEffort(), Summary: opened.GetSummary(),
		Notes: opened.GetNotes(),
	}}, nil
}

// cage implements [loop.Cage].
type cage struct {
	client  toolrunnerv1.ToolRunnerServiceClient
	session string
	stream  grpc.ServerStreamingClient[toolrunnerv1.HoldCageEvent]
	opened  loop.CageOpened
}

// Opened implements loop.Cage.
func (c *cage) Opened() loop.CageOpened { return c.opened }

// Release implements loop.Cage.
func (c *cage) Release(ctx context.Context) ([]loop.CageFinding, error) {
	res, err := c.client.ReleaseCage(ctx, &toolrunnerv1.ReleaseCageRequest{CageId: c.opened.ID, SessionId: c.session})
	if err != nil {
		return nil, err
	}
	return findingsFromProto(res.GetFound()), nil
}

func findingsFromProto(list []*commonv1.CageFinding) (found []loop.CageFinding) {
	for _, f := range list {
		found = append(found, loop.CageFinding{Kind: f.GetKind(), Path: f.GetPath(), Text: f.GetText()})
	}
	return found
}

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
			return loop.CageEnd{Reason: event.GetEnded().GetReason(), Found: findingsFromProto(event.GetEnded().GetFound())}, nil
		}
	}
}

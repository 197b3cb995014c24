package toolrunner

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/harness/internal/core/loop"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Hold implements [loop.Tools].
func (r *Runner) Hold(ctx context.Context, id string, caller *contract.Caller) (loop.Cage, error) {
	req := &toolrunnerv1.HoldCageRequest{CageId: id, Context: toolwire.Caller(caller), TellChecked: true}
	type events = grpc.ServerStreamingClient[toolrunnerv1.HoldCageEvent]
	stream, err := rpc.Reach(ctx, func(ctx context.Context, opts ...grpc.CallOption) (events, error) {
		return r.client.HoldCage(ctx, req, opts...)
	})
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, brokenOff(err, false)
	}
	c := &cage{client: r.client, session: caller.SessionID, agent: caller.Agent, stream: stream}
	if e := toolwire.FromCageEvent(first); !e.Checked { // the cage existed already
		return c, c.take(e)
	}
	return c, nil
}

// cage implements [loop.Cage].
type cage struct {
	client  toolrunnerv1.ToolRunnerServiceClient
	session string
	agent   string
	stream  grpc.ServerStreamingClient[toolrunnerv1.HoldCageEvent]
	opened  *contract.Cage // nil until the cage is up
}

// take stores the event that reports the cage as up.
func (c *cage) take(e contract.CageEvent) error {
	if e.Opened == nil {
		return fault.New(fault.CageUnavailable, "The cage of the agent %s ended before it was there: %s.", c.agent, e.Ended)
	}
	c.opened = e.Opened
	return nil
}

// Opened implements loop.Cage.
func (c *cage) Opened() (contract.Cage, error) {
	if c.opened == nil {
		m, err := c.stream.Recv()
		if err != nil {
			return contract.Cage{}, brokenOff(err, false)
		}
		if err := c.take(toolwire.FromCageEvent(m)); err != nil {
			return contract.Cage{}, err
		}
	}
	return *c.opened, nil
}

// Release implements loop.Cage.
func (c *cage) Release(ctx context.Context) ([]contract.Finding, error) {
	res, err := c.client.ReleaseCage(ctx, &toolrunnerv1.ReleaseCageRequest{CageId: c.opened.ID, SessionId: c.session})
	if err != nil {
		return nil, err
	}
	return contract.FindingsFromProto(res.GetFound()), nil
}

// Next implements loop.Cage. It skips unknown events.
func (c *cage) Next() (contract.CageEvent, error) {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return contract.CageEvent{}, err
		}
		e := toolwire.FromCageEvent(m)
		if e.Ended != "" {
			_, _ = c.stream.Recv() // the end of the stream follows at once
		}
		if e.Ended != "" || e.Network != nil {
			return e, nil
		}
	}
}

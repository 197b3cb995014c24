package supervisor

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Hold implements [sandbox.Cages].
func (c *Client) Hold(ctx context.Context, spec contract.CageSpec, event func(contract.CageEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type events = grpc.ServerStreamingClient[sandboxsupervisorv1.HoldCageEvent]
	stream, err := rpc.Reach(ctx, func(ctx context.Context, opts ...grpc.CallOption) (events, error) {
		return c.client.HoldCage(ctx, sandboxwire.CageSpec(spec), opts...)
	})
	if err != nil {
		return err
	}
	opened := false
	for {
		message, err := stream.Recv()
		if err != nil {
			return heldNoMore(ctx, err, opened)
		}
		e := sandboxwire.FromCageEvent(message)
		opened = opened || e.Opened != nil
		if err := event(e); err != nil {
			return err
		}
		if e.Ended != "" {
			_, _ = stream.Recv() // the end of the stream follows at once
			return nil
		}
	}
}

// Release implements [sandbox.Cages].
func (c *Client) Release(ctx context.Context, id, session string) ([]contract.Finding, error) {
	res, err := c.client.ReleaseCage(ctx, &sandboxsupervisorv1.ReleaseCageRequest{CageId: id, SessionId: session})
	if err != nil {
		return nil, err
	}
	return contract.FindingsFromProto(res.GetFound()), nil
}

// heldNoMore interprets the error of a hold that ended before its cage: the refusal of a new cage, or the loss of an
// open one.
func heldNoMore(ctx context.Context, err error, opened bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case opened || errors.Is(err, io.EOF):
		return fault.Wrap(err, fault.Unavailable, "The sandbox went away, and the agent's cage with it.").
			With("subsystem", "sandbox-supervisor")
	}
	return err
}

// SignalRunning implements [sandbox.Inventory].
func (c *Client) SignalRunning(ctx context.Context, session, id, name string) error {
	return c.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: id, SessionId: session,
		Control: &sandboxsupervisorv1.ControlProcessRequest_Signal{Signal: &sandboxsupervisorv1.Signal{Name: name}},
	})
}

// Running implements [sandbox.Inventory].
func (c *Client) Running(ctx context.Context, session string) (contract.Running, error) {
	var running contract.Running
	list, err := c.client.ListProcesses(ctx, &sandboxsupervisorv1.ListProcessesRequest{SessionId: session})
	if err != nil {
		return running, err
	}
	cages, err := c.client.ListCages(ctx, &sandboxsupervisorv1.ListCagesRequest{SessionId: session})
	if err != nil {
		return running, err
	}
	for _, p := range list.GetProcesses() {
		running.Processes = append(running.Processes, sandboxwire.FromProcess(p).RunningProcess)
	}
	for _, p := range cages.GetCages() {
		running.Cages = append(running.Cages, sandboxwire.FromCage(p))
	}
	return running, nil
}

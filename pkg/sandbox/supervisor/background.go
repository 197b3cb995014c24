package supervisor

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// patient calls wait for a restarting supervisor until their context ends.
var patient = grpc.WaitForReady(true)

// Start implements [sandbox.Background], as do the methods below.
func (c *Client) Start(ctx context.Context, id string, spec sandbox.Spec) error {
	_, err := c.client.StartProcess(ctx, &sandboxsupervisorv1.StartProcessRequest{ProcessId: id, Start: specToProto(spec)})
	return err
}

// Attach implements sandbox.Background.
func (c *Client) Attach(
	ctx context.Context, id string, from int64, follow bool, output func(at int64, data []byte) error,
) (contract.Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.AttachProcess(ctx, &sandboxsupervisorv1.AttachProcessRequest{
		ProcessId: id, Offset: from,
		Follow: follow,
	}, patient)
	if err != nil {
		return contract.Process{}, err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return contract.Process{}, fault.New(fault.Unavailable, "The sandbox supervisor returned no state of the process.").
				With("subsystem", "sandbox-supervisor")
		}
		if err != nil {
			return contract.Process{}, err
		}
		switch e := event.GetEvent().(type) {
		case *sandboxsupervisorv1.AttachProcessEvent_Output:
			if err := output(e.Output.GetOffset(), e.Output.GetData()); err != nil {
				return contract.Process{}, err
			}
		case *sandboxsupervisorv1.AttachProcessEvent_Process:
			return sandboxwire.FromProcess(e.Process), nil
		}
	}
}

// Input implements sandbox.Background.
func (c *Client) Input(ctx context.Context, id string, data []byte, end bool) error {
	if len(data) > 0 {
		if err := c.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
			ProcessId: id, Control: &sandboxsupervisorv1.ControlProcessRequest_Stdin{Stdin: data},
		}); err != nil {
			return err
		}
	}
	if !end {
		return nil
	}
	return c.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: id, Control: &sandboxsupervisorv1.ControlProcessRequest_CloseStdin{
			CloseStdin: &sandboxsupervisorv1.CloseStdin{},
		},
	})
}

// Signal implements sandbox.Background.
func (c *Client) Signal(ctx context.Context, id, name string) error {
	return c.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: id, Control: &sandboxsupervisorv1.ControlProcessRequest_Signal{
			Signal: &sandboxsupervisorv1.Signal{Name: name},
		},
	})
}

func (c *Client) control(ctx context.Context, req *sandboxsupervisorv1.ControlProcessRequest) error {
	_, err := c.client.ControlProcess(ctx, req, patient)
	return err
}

// End implements sandbox.Background.
func (c *Client) End(ctx context.Context, id string) (contract.Process, error) {
	res, err := c.client.EndProcess(ctx, &sandboxsupervisorv1.EndProcessRequest{ProcessId: id}, patient)
	if err != nil {
		return contract.Process{}, err
	}
	return sandboxwire.FromProcess(res.GetProcess()), nil
}

// Processes implements sandbox.Background.
func (c *Client) Processes(ctx context.Context, session string) ([]contract.Process, error) {
	res, err := c.client.ListProcesses(ctx, &sandboxsupervisorv1.ListProcessesRequest{SessionId: session, Ended: true},
		patient)
	if err != nil {
		return nil, err
	}
	var list []contract.Process
	for _, p := range res.GetProcesses() {
		if p.GetDetached() {
			list = append(list, sandboxwire.FromProcess(p))
		}
	}
	return list, nil
}

// Package supervisor is the gRPC client of sandbox-supervisor. It runs commands and holds cages.
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
	"kaged.dev/pkg/sandbox"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Client is a [sandbox.Runner], a [sandbox.Background], [sandbox.Cages] and a [sandbox.Inventory].
type Client struct {
	client sandboxsupervisorv1.SandboxServiceClient
}

var (
	_ sandbox.Runner     = (*Client)(nil)
	_ sandbox.Background = (*Client)(nil)
	_ sandbox.Cages      = (*Client)(nil)
	_ sandbox.Inventory  = (*Client)(nil)
)

// New returns a Client that uses client.
func New(client sandboxsupervisorv1.SandboxServiceClient) *Client { return &Client{client} }

type stream = grpc.BidiStreamingClient[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent]

// Run runs one command in one stream; the end of the stream ends the command.
func (c *Client) Run(ctx context.Context, spec sandbox.Spec, output func([]byte)) (contract.Exit, error) {
	// Any return ends the stream, and the supervisor then kills the remaining processes.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := rpc.Reach(ctx, func(ctx context.Context, opts ...grpc.CallOption) (stream, error) {
		return c.client.Exec(ctx, opts...)
	})
	if err != nil {
		return contract.Exit{}, err
	}
	if err := start(st, spec); err != nil {
		return contract.Exit{}, err
	}
	started := false
	for {
		event, err := st.Recv()
		if err != nil {
			return contract.Exit{Started: started}, ended(ctx, err, started)
		}
		switch e := event.GetEvent().(type) {
		case *sandboxsupervisorv1.ExecEvent_Started:
			started = true
		case *sandboxsupervisorv1.ExecEvent_Output:
			if e.Output.GetStream() == sandboxsupervisorv1.Stream_STREAM_STDERR && spec.Stderr != nil {
				spec.Stderr(e.Output.GetData())
			} else {
				output(e.Output.GetData())
			}
		case *sandboxsupervisorv1.ExecEvent_Refused:
			if spec.Refused != nil {
				spec.Refused(contract.AttemptFromProto(e.Refused))
			}
		case *sandboxsupervisorv1.ExecEvent_Exited:
			return sandboxwire.FromExit(e.Exited), nil
		}
	}
}

// start sends the command and closes its input, so that a program that asks a question does not wait for an answer. A
// refusal by the supervisor comes with the first Recv.
func start(st stream, spec sandbox.Spec) error {
	for _, m := range []*sandboxsupervisorv1.ExecRequest{
		{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: specToProto(spec)}},
		{Request: &sandboxsupervisorv1.ExecRequest_CloseStdin{CloseStdin: &sandboxsupervisorv1.CloseStdin{}}},
	} {
		if err := st.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

//convert:one specToProto sandbox.Spec *sandboxsupervisorv1.ExecStart Dir=Cwd Root=ProjectRoot
//convert:with >MergeStderr=in.Stderr==nil >Terminal=terminal(in.Terminal) >Share=-

func terminal(wanted bool) *sandboxsupervisorv1.Terminal {
	if !wanted {
		return nil
	}
	return &sandboxsupervisorv1.Terminal{}
}

// ended interprets the error of a stream that ended before its command.
func ended(ctx context.Context, err error, started bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) || started {
		return lost(err)
	}
	return err
}

func lost(err error) error {
	return fault.Wrap(err, fault.Interrupted, "The command was cut off because the sandbox went away; what it had done "+
		"is done.")
}

// EndRun kills the commands of a run.
func (c *Client) EndRun(ctx context.Context, run string) error {
	_, err := c.client.EndOwner(ctx, &sandboxsupervisorv1.EndOwnerRequest{RunId: run})
	return err
}

// EndSession kills every command of a session.
func (c *Client) EndSession(ctx context.Context, session string) ([]contract.Finding, error) {
	res, err := c.client.EndOwner(ctx, &sandboxsupervisorv1.EndOwnerRequest{SessionId: session})
	return contract.FindingsFromProto(res.GetFound()), err
}

package workbench

import (
	"cmp"
	"context"
	"errors"
	"io"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Sandbox runs commands in cages. It has a supervisor like that of a daemon, private to this process; --no-sandbox does
// not affect it.
type Sandbox struct {
	*process
	client sandboxsupervisorv1.SandboxServiceClient
}

// OpenSandbox starts a sandbox. It fails as [Open] does.
func OpenSandbox(opts Options) (*Sandbox, error) {
	p, err := launch(opts, false, "sandbox-supervisor")
	if err != nil {
		return nil, err
	}
	return &Sandbox{p, sandboxsupervisorv1.NewSandboxServiceClient(p.host.Dial("sandbox-supervisor"))}, nil
}

// Probe tests this machine's support for cages by creating one.
func (s *Sandbox) Probe(ctx context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
	return s.client.ProbeCages(ctx, &sandboxsupervisorv1.ProbeCagesRequest{})
}

// FindServers finds the programs of the language servers, with and without a cage.
func FindServers(ctx context.Context, opts Options) ([]*lsppoolv1.FoundServer, error) {
	p, err := launch(opts, false, "lsp-pool", "sandbox-supervisor")
	if err != nil {
		return nil, err
	}
	pool := lsppoolv1.NewLSPPoolServiceClient(p.host.Dial("lsp-pool"))
	found, err := pool.FindServers(ctx, &lsppoolv1.FindServersRequest{})
	return found.GetServers(), cmp.Or(err, p.Close())
}

// Size is the size of a terminal in characters.
type Size struct{ Cols, Rows uint32 }

// Command is one command with its own cage.
type Command struct {
	Argv []string
	// Dir is its working folder, Root the base of the policy's project paths, both absolute.
	Dir, Root string
	Env       map[string]string
	Policy    *dsl.Cage
	// Terminal is the size of its terminal, nil for pipes.
	Terminal *Size
	// Stdin is its standard input. A pending Read does not end with the command.
	Stdin io.Reader
	// Output receives its output. One goroutine calls it.
	Output func(stderr bool, data []byte)
	// Refused receives the connections that its cage refused, on the same goroutine as Output.
	Refused func(*commonv1.NetworkAttempt)
	// Resized and Signals, unless nil, send the command sizes of its terminal and signals by name, such as SIGINT.
	Resized <-chan Size
	Signals <-chan string
}

// Exec runs a command to its end. It fails with shell_spawn_failed, with details for a missing program, with
// cage_policy_invalid and cage_unavailable. The end of ctx kills the command.
//
// Goroutines: one that sends standard input, one that sends sizes and signals. The second ends with Exec; the first
// when its reader ends, because a read cannot be cancelled.
func (s *Sandbox) Exec(ctx context.Context, c Command) (*sandboxsupervisorv1.ExecExited, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.Exec(ctx)
	if err != nil {
		return nil, err
	}
	out := &requests{stream: stream}
	if err := out.send(&sandboxsupervisorv1.ExecRequest{
		Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start(c)},
	}); err != nil {
		return nil, err
	}
	go out.input(c.Stdin)
	over := make(chan struct{})
	go func() {
		defer close(over)
		out.control(ctx, c)
	}()
	defer func() { cancel(); <-over }()
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, fault.New(fault.Interrupted, "The command was cut off because its sandbox went away.")
		}
		if err != nil {
			return nil, err
		}
		switch e := event.GetEvent().(type) {
		case *sandboxsupervisorv1.ExecEvent_Output:
			c.Output(e.Output.GetStream() == sandboxsupervisorv1.Stream_STREAM_STDERR, e.Output.GetData())
		case *sandboxsupervisorv1.ExecEvent_Refused:
			c.Refused(e.Refused)
		case *sandboxsupervisorv1.ExecEvent_Exited:
			_, _ = stream.Recv() // the end of the stream follows at once
			return e.Exited, nil
		}
	}
}

//convert:import ident "kaged.dev/pkg/ident"
//convert:one start Command *sandboxsupervisorv1.ExecStart Dir=Cwd Policy=Cage Root=ProjectRoot
//convert:with >Owner=&sandboxsupervisorv1.Owner{SessionId:ident.New()} >TimeoutMs=- >MergeStderr=- >CageId=- >Share=-
//convert:one sizeToProto Size *sandboxsupervisorv1.Terminal

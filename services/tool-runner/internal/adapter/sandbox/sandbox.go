// Package sandbox runs commands by way of sandbox-supervisor.
package sandbox

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/command"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Sandbox is a [command.Runner], a [command.Background], [command.Cages] and a [command.Inventory].
type Sandbox struct {
	client sandboxsupervisorv1.SandboxServiceClient
}

var (
	_ command.Runner     = (*Sandbox)(nil)
	_ command.Background = (*Sandbox)(nil)
	_ command.Cages      = (*Sandbox)(nil)
	_ command.Inventory  = (*Sandbox)(nil)
)

// New returns a runner that asks client.
func New(client sandboxsupervisorv1.SandboxServiceClient) *Sandbox { return &Sandbox{client} }

type stream = grpc.BidiStreamingClient[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent]

// Run runs one command in one stream; the end of the stream is the end of the command.
func (s *Sandbox) Run(ctx context.Context, spec command.Spec, output func([]byte)) (command.Exit, error) {
	// Returning for whatever reason ends the stream, and the supervisor then kills what is left.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := s.client.Exec(ctx)
	if err != nil {
		return command.Exit{}, err
	}
	if err := start(st, spec); err != nil {
		return command.Exit{}, err
	}
	started := false
	for {
		event, err := st.Recv()
		if err != nil {
			return command.Exit{Started: started}, ended(ctx, err, started)
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
				spec.Refused(attemptFromProto(e.Refused))
			}
		case *sandboxsupervisorv1.ExecEvent_Exited:
			exit := exitFromProto(e.Exited)
			exit.Started = true
			return exit, nil
		}
	}
}

// start sends the command, and that there is nothing to read: a program that asks a question gets no answer instead of
// waiting for one. What the supervisor says to a request it refuses comes with the first Recv.
func start(st stream, spec command.Spec) error {
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

func specToProto(spec command.Spec) *sandboxsupervisorv1.ExecStart {
	start := &sandboxsupervisorv1.ExecStart{
		Owner: ownerToProto(spec.Owner), CageId: spec.CageID,
		Argv: spec.Argv, Cwd: spec.Dir, Env: spec.Env, TimeoutMs: spec.Timeout.Milliseconds(),
		Cage: spec.Cage.Proto(), ProjectRoot: spec.Root, MergeStderr: spec.Stderr == nil,
	}
	if spec.Terminal {
		start.Terminal = &sandboxsupervisorv1.Terminal{}
	}
	return start
}

// ended says what the end of a stream before the command's means.
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
	return fault.Wrap(err, fault.Interrupted, "The command was cut off because the sandbox went away; what it had done is done.")
}

func exitFromProto(e *sandboxsupervisorv1.ExecExited) command.Exit {
	return command.Exit{
		Code: int(e.GetExitCode()), Signal: e.GetSignal(), Reason: reasons[e.GetReason()], Duration: time.Duration(e.GetDurationMs()) * time.Millisecond,
	}
}

var reasons = map[sandboxsupervisorv1.KillReason]command.Reason{
	sandboxsupervisorv1.KillReason_KILL_REASON_TIMEOUT:     command.TimedOut,
	sandboxsupervisorv1.KillReason_KILL_REASON_CANCELLED:   command.Cancelled,
	sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED: command.OwnerEnded,
	sandboxsupervisorv1.KillReason_KILL_REASON_LOST:        command.Lost,
	sandboxsupervisorv1.KillReason_KILL_REASON_OOM:         command.OutOfMemory,
	sandboxsupervisorv1.KillReason_KILL_REASON_PIDS:        command.TooManyProcesses,
	sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME:    command.OutOfTime,
	sandboxsupervisorv1.KillReason_KILL_REASON_DISK:        command.DiskFull,
	sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP:     command.BadSystemCall,
}

// EndSession kills every command of a session.
func (s *Sandbox) EndSession(ctx context.Context, session string) ([]command.Finding, error) {
	res, err := s.client.EndOwner(ctx, &sandboxsupervisorv1.EndOwnerRequest{SessionId: session})
	return findingsFromProto(res.GetFound()), err
}

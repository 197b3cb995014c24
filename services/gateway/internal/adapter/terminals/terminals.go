// Package terminals connects to terminals of background processes. session-manager checks the session and the
// process, and the workspace's sandbox-supervisor runs the terminal.
package terminals

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/terminal"
)

// Terminals opens terminals. It is safe for concurrent use.
type Terminals struct {
	manager sessionmanagerv1.TerminalServiceClient
	dial    func(workspace string) (grpc.ClientConnInterface, error)
}

// New returns Terminals. dial returns a connection to the sandbox-supervisor of a workspace.
func New(manager grpc.ClientConnInterface, dial func(workspace string) (grpc.ClientConnInterface, error)) *Terminals {
	return &Terminals{sessionmanagerv1.NewTerminalServiceClient(manager), dial}
}

// Open implements terminal.Open.
func (t *Terminals) Open(ctx context.Context, session, process string) (terminal.Port, error) {
	req := &sessionmanagerv1.OpenTerminalRequest{SessionId: session, ProcessId: process}
	found, err := t.manager.OpenTerminal(ctx, req)
	if err != nil || process == "" {
		return nil, err
	}
	conn, err := t.dial(found.GetWorkspace())
	if err != nil {
		return nil, err
	}
	return &port{
		session: session, process: process, shown: found.GetTerminal(), manager: t.manager,
		supervisor: sandboxsupervisorv1.NewSandboxServiceClient(conn),
	}, nil
}

// port implements terminal.Port. Every call names the session, so that the supervisor checks that the session owns
// the process.
type port struct {
	session, process string
	shown            *sessionmanagerv1.Terminal
	manager          sessionmanagerv1.TerminalServiceClient
	supervisor       sandboxsupervisorv1.SandboxServiceClient
}

// Follow implements terminal.Port.
func (p *port) Follow(
	ctx context.Context, from int64, attached func(terminal.Process) error, output func(at int64, data []byte) error,
) (terminal.Ended, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.supervisor.AttachProcess(ctx, &sandboxsupervisorv1.AttachProcessRequest{
		ProcessId: p.process, SessionId: p.session, Offset: from, Follow: true,
	})
	if err != nil {
		return terminal.Ended{}, err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = fault.New(fault.Unavailable, "The sandbox supervisor did not report the end of the process.").
				With("subsystem", "sandbox-supervisor")
		}
		if err != nil {
			return terminal.Ended{}, err
		}
		switch e := event.GetEvent().(type) {
		case *sandboxsupervisorv1.AttachProcessEvent_Attached:
			err = attached(terminal.Process{
				Start: e.Attached.GetOutputStart(), End: e.Attached.GetOutputEnd(), Terminal: e.Attached.GetTerminal(),
			})
		case *sandboxsupervisorv1.AttachProcessEvent_Output:
			err = output(e.Output.GetOffset(), e.Output.GetData())
		case *sandboxsupervisorv1.AttachProcessEvent_Process:
			return ended(e.Process), nil
		}
		if err != nil {
			return terminal.Ended{}, err
		}
	}
}

func ended(p *sandboxsupervisorv1.Process) terminal.Ended {
	e := terminal.Ended{Offset: p.GetOutputEnd()}
	if x := p.GetExited(); x != nil {
		e.Known, e.Code, e.Signal = true, x.GetExitCode(), x.GetSignal()
		e.Duration = time.Duration(x.GetDurationMs()) * time.Millisecond
		if x.GetReason() != sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED {
			e.Reason = strings.ToLower(strings.TrimPrefix(x.GetReason().String(), "KILL_REASON_"))
		}
	}
	return e
}

// Type implements terminal.Port.
func (p *port) Type(ctx context.Context, keys []byte) (hidden bool, err error) {
	res, err := p.supervisor.ControlProcess(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: p.process, SessionId: p.session,
		Control: &sandboxsupervisorv1.ControlProcessRequest_Stdin{Stdin: keys},
	})
	return res.GetHidden(), err
}

// Resize implements terminal.Port.
func (p *port) Resize(ctx context.Context, cols, rows uint32) error {
	_, err := p.supervisor.ControlProcess(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: p.process, SessionId: p.session, Control: &sandboxsupervisorv1.ControlProcessRequest_Resize{
			Resize: &sandboxsupervisorv1.Resize{Terminal: &sandboxsupervisorv1.Terminal{Cols: cols, Rows: rows}},
		},
	})
	return err
}

// Record implements terminal.Port.
func (p *port) Record(ctx context.Context, typed terminal.Typed) error {
	_, err := p.manager.RecordTerminalInput(ctx, &sessionmanagerv1.RecordTerminalInputRequest{
		SessionId: p.session, Terminal: p.shown, Input: typed.Keys, Hidden: typed.Hidden, Length: int64(typed.Length),
	})
	return err
}

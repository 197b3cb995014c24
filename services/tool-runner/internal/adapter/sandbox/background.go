package sandbox

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/command"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// patient calls wait for a supervisor that is being restarted, as long as their context lasts.
var patient = grpc.WaitForReady(true)

// Start implements [command.Background], as do the methods below.
func (s *Sandbox) Start(ctx context.Context, id string, spec command.Spec) error {
	_, err := s.client.StartProcess(ctx, &sandboxsupervisorv1.StartProcessRequest{ProcessId: id, Start: specToProto(spec)})
	return err
}

// Attach implements command.Background.
func (s *Sandbox) Attach(ctx context.Context, id string, from int64, follow bool, output func(at int64, data []byte) error) (command.Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.AttachProcess(ctx, &sandboxsupervisorv1.AttachProcessRequest{ProcessId: id, Offset: from, Follow: follow}, patient)
	if err != nil {
		return command.Process{}, err
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return command.Process{}, fault.New(fault.Unavailable, "The sandbox supervisor says nothing about the process.").With("subsystem", "sandbox-supervisor")
		}
		if err != nil {
			return command.Process{}, err
		}
		switch e := event.GetEvent().(type) {
		case *sandboxsupervisorv1.AttachProcessEvent_Output:
			if err := output(e.Output.GetOffset(), e.Output.GetData()); err != nil {
				return command.Process{}, err
			}
		case *sandboxsupervisorv1.AttachProcessEvent_Process:
			return processFromProto(e.Process), nil
		}
	}
}

// Input implements command.Background.
func (s *Sandbox) Input(ctx context.Context, id string, data []byte, end bool) error {
	if len(data) > 0 {
		if err := s.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
			ProcessId: id, Control: &sandboxsupervisorv1.ControlProcessRequest_Stdin{Stdin: data},
		}); err != nil {
			return err
		}
	}
	if !end {
		return nil
	}
	return s.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: id, Control: &sandboxsupervisorv1.ControlProcessRequest_CloseStdin{CloseStdin: &sandboxsupervisorv1.CloseStdin{}},
	})
}

// Signal implements command.Background.
func (s *Sandbox) Signal(ctx context.Context, id, name string) error {
	return s.control(ctx, &sandboxsupervisorv1.ControlProcessRequest{
		ProcessId: id, Control: &sandboxsupervisorv1.ControlProcessRequest_Signal{Signal: &sandboxsupervisorv1.Signal{Name: name}},
	})
}

func (s *Sandbox) control(ctx context.Context, req *sandboxsupervisorv1.ControlProcessRequest) error {
	_, err := s.client.ControlProcess(ctx, req, patient)
	return err
}

// End implements command.Background.
func (s *Sandbox) End(ctx context.Context, id string) (command.Process, error) {
	res, err := s.client.EndProcess(ctx, &sandboxsupervisorv1.EndProcessRequest{ProcessId: id}, patient)
	if err != nil {
		return command.Process{}, err
	}
	return processFromProto(res.GetProcess()), nil
}

// Processes implements command.Background.
func (s *Sandbox) Processes(ctx context.Context, session string) ([]command.Process, error) {
	res, err := s.client.ListProcesses(ctx, &sandboxsupervisorv1.ListProcessesRequest{SessionId: session, Ended: true}, patient)
	if err != nil {
		return nil, err
	}
	var list []command.Process
	for _, p := range res.GetProcesses() {
		if p.GetDetached() {
			list = append(list, processFromProto(p))
		}
	}
	return list, nil
}

func processFromProto(p *sandboxsupervisorv1.Process) command.Process {
	process := command.Process{ID: p.GetExecId(), Start: p.GetOutputStart(), End: p.GetOutputEnd()}
	if p.GetExited() != nil {
		exit := exitFromProto(p.GetExited())
		process.Exit = &exit
	}
	return process
}

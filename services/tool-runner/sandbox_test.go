package toolrunner_test

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/testkit/sandboxtest"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// smallSandbox is a small supervisor: it follows the contract and really runs commands on a terminal.
type smallSandbox struct {
	sandboxsupervisorv1.UnimplementedSandboxServiceServer
	shell sandboxtest.Shell
	// reason and breaks change the end of a command: to a kill reason of the supervisor, or to a broken stream.
	reason sandboxsupervisorv1.KillReason
	breaks bool
	// asked receives each started command, gone the error of each command that ended because its caller left.
	asked chan *sandboxsupervisorv1.ExecStart
	gone  chan error
	// refused are the connections that the cage refuses while a command runs.
	refused []*commonv1.NetworkAttempt
	// held receives each request for a cage. events are the cage's events; refuses is the error of the request.
	held    chan *sandboxsupervisorv1.HoldCageRequest
	events  chan *sandboxsupervisorv1.HoldCageEvent
	refuses error
	// left receives a value for each hold that its caller ended.
	left chan struct{}
}

func newSandbox() *smallSandbox {
	return &smallSandbox{
		shell: sandboxtest.Shell{KillGrace: 200 * time.Millisecond},
		asked: make(chan *sandboxsupervisorv1.ExecStart, 100), gone: make(chan error, 100),
		held: make(
			chan *sandboxsupervisorv1.HoldCageRequest,
			1,
		),
		events: make(chan *sandboxsupervisorv1.HoldCageEvent, 10), left: make(chan struct{}, 1),
	}
}

// Exec runs one command according to the contract.
func (s *smallSandbox) Exec(
	stream grpc.BidiStreamingServer[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent],
) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	s.asked <- start
	if err := stream.Send(&sandboxsupervisorv1.ExecEvent{
		Event: &sandboxsupervisorv1.ExecEvent_Started{Started: &sandboxsupervisorv1.ExecStarted{}},
	}); err != nil {
		return err
	}
	for _, a := range s.refused {
		if err := stream.Send(&sandboxsupervisorv1.ExecEvent{
			Event: &sandboxsupervisorv1.ExecEvent_Refused{Refused: a},
		}); err != nil {
			return err
		}
	}
	exit, err := s.shell.Run(stream.Context(), sandbox.Spec{
		Argv: start.GetArgv(), Dir: start.GetCwd(), Env: start.GetEnv(),
		Timeout: time.Duration(start.GetTimeoutMs()) * time.Millisecond,
	}, func(data []byte) {
		_ = stream.Send(&sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Output{
			Output: &sandboxsupervisorv1.ExecOutput{
				Stream: sandboxsupervisorv1.Stream_STREAM_STDOUT,
				Data:   append([]byte(nil), data...),
			},
		}})
	})
	if err != nil {
		s.gone <- err
		return err
	}
	if s.breaks {
		return fault.New(fault.Unavailable, "The supervisor is going away.")
	}
	reason := s.reason
	if exit.Reason == contract.ReasonTimeout {
		reason = sandboxsupervisorv1.KillReason_KILL_REASON_TIMEOUT
	}
	return stream.Send(
		&sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Exited{Exited: &sandboxsupervisorv1.ExecExited{
			ExitCode: int32(exit.Code), Reason: reason, DurationMs: exit.Duration.Milliseconds(),
		}}},
	)
}

// HoldCage holds a cage according to the test's fields.
func (s *smallSandbox) HoldCage(
	req *sandboxsupervisorv1.HoldCageRequest,
	stream grpc.ServerStreamingServer[sandboxsupervisorv1.HoldCageEvent],
) error {
	s.held <- req
	if s.refuses != nil {
		return s.refuses
	}
	for {
		select {
		case e, more := <-s.events:
			if !more {
				return nil
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			s.left <- struct{}{}
			return stream.Context().Err()
		}
	}
}

// ListProcesses lists one process of each requested session.
func (s *smallSandbox) ListProcesses(
	_ context.Context,
	req *sandboxsupervisorv1.ListProcessesRequest,
) (*sandboxsupervisorv1.ListProcessesResponse, error) {
	return &sandboxsupervisorv1.ListProcessesResponse{Processes: []*sandboxsupervisorv1.Process{{
		ExecId: "e", Owner: &sandboxsupervisorv1.Owner{
			SessionId: req.GetSessionId(), RunId: "r", ProjectId: "p", AgentPath: "primary",
		}, Pid: 7,
		Command: "sleep 1", StartedAt: 1, MemoryBytes: 2, CpuMs: 3, Detached: true, CageId: "c",
	}}}, nil
}

// ListCages lists one cage of each requested session.
func (s *smallSandbox) ListCages(
	_ context.Context,
	req *sandboxsupervisorv1.ListCagesRequest,
) (*sandboxsupervisorv1.ListCagesResponse, error) {
	return &sandboxsupervisorv1.ListCagesResponse{Cages: []*sandboxsupervisorv1.Cage{{
		CageId: "c", Owner: &sandboxsupervisorv1.Owner{SessionId: req.GetSessionId(), RunId: "r", ProjectId: "p"},
		AgentPath: "primary", StartedAt: 1,
		Tier: "userns", BestEffort: []string{"b"}, MemoryBytes: 2, CpuMs: 3, Processes: 4,
	}}}, nil
}

// EndOwner records the owners with commands to end.
func (s *smallSandbox) EndOwner(
	ctx context.Context,
	req *sandboxsupervisorv1.EndOwnerRequest,
) (*sandboxsupervisorv1.EndOwnerResponse, error) {
	if req.GetRunId() != "" {
		return &sandboxsupervisorv1.EndOwnerResponse{}, nil
	}
	_, err := s.shell.EndSession(ctx, req.GetSessionId())
	return &sandboxsupervisorv1.EndOwnerResponse{}, err
}

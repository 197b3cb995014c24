package server

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// AttachProcess returns a process's output.
func (s *Server) AttachProcess(
	req *sandboxsupervisorv1.AttachProcessRequest,
	stream grpc.ServerStreamingServer[sandboxsupervisorv1.AttachProcessEvent],
) error {
	process, err := s.processOf(req.GetSessionId(), req.GetProcessId())
	if err != nil {
		return err
	}
	state := &sandboxsupervisorv1.AttachProcessEvent_Attached{Attached: sandboxwire.Process(process.Info())}
	if err := stream.Send(&sandboxsupervisorv1.AttachProcessEvent{Event: state}); err != nil {
		return err
	}
	err = process.Follow(stream.Context(), req.GetOffset(), req.GetFollow(), func(at int64, data []byte) error {
		return stream.Send(&sandboxsupervisorv1.AttachProcessEvent{Event: &sandboxsupervisorv1.AttachProcessEvent_Output{
			Output: &sandboxsupervisorv1.ProcessOutput{Offset: at, Data: data},
		}})
	})
	if err != nil {
		return fault.From(err)
	}
	return stream.Send(&sandboxsupervisorv1.AttachProcessEvent{Event: &sandboxsupervisorv1.AttachProcessEvent_Process{
		Process: sandboxwire.Process(process.Info()),
	}})
}

package server

import (
	"math"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

func commandFromProto(req *sandboxsupervisorv1.ExecRequest) (core.Command, error) {
	start := req.GetStart()
	if start == nil {
		return core.Command{}, fault.New(fault.BadRequest, "The first request on the stream must start a command.")
	}
	return startFromProto(start), nil
}

//convert:use sandboxwire.FromOwner
//convert:one startFromProto *sandboxsupervisorv1.ExecStart core.Command Cwd=Dir MergeStderr=Merge ProjectRoot=Root
//convert:with >Timeout=milliseconds(in.GetTimeoutMs())
//convert:one sizeFromProto *sandboxsupervisorv1.Terminal core.Size
//convert:one probeToProto core.Report *sandboxsupervisorv1.ProbeCagesResponse
//convert:one layerToProto core.Layer *sandboxsupervisorv1.CageLayer

// milliseconds returns a duration; a number that does not fit becomes the longest duration, which no limit allows.
func milliseconds(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

func startedToProto(e *core.Exec) *sandboxsupervisorv1.ExecStarted {
	return &sandboxsupervisorv1.ExecStarted{
		ExecId: e.ID(), Pid: int64(e.PID()), StartedAt: e.StartedAt().UnixMilli(),
	}
}

func outputToProto(from core.Stream, data []byte) *sandboxsupervisorv1.ExecEvent {
	stream := sandboxsupervisorv1.Stream_STREAM_STDOUT
	if from == core.Stderr {
		stream = sandboxsupervisorv1.Stream_STREAM_STDERR
	}
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Output{
		Output: &sandboxsupervisorv1.ExecOutput{
			Stream: stream, Data: data,
		},
	}}
}

func exitedToProto(exit contract.Exit, found []contract.Finding) *sandboxsupervisorv1.ExecEvent {
	exited := sandboxwire.Exit(exit)
	exited.Found = contract.FindingsProto(found)
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Exited{Exited: exited}}
}

func refusedToProto(a contract.Attempt) *sandboxsupervisorv1.ExecEvent {
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Refused{Refused: a.Proto()}}
}

func processesToProto(list []contract.Process) *sandboxsupervisorv1.ListProcessesResponse {
	res := &sandboxsupervisorv1.ListProcessesResponse{Processes: make([]*sandboxsupervisorv1.Process, 0, len(list))}
	for _, p := range list {
		res.Processes = append(res.Processes, sandboxwire.Process(p))
	}
	return res
}

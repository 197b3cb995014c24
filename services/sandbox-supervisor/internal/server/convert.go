package server

import (
	"math"
	"time"

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

func startFromProto(start *sandboxsupervisorv1.ExecStart) core.Command {
	c := core.Command{
		Owner: core.Owner{
			SessionID: start.GetOwner().GetSessionId(), RunID: start.GetOwner().GetRunId(),
			CallID: start.GetOwner().GetCallId(), ProjectID: start.GetOwner().GetProjectId(), Agent: start.GetOwner().GetAgentPath(),
		},
		Argv: start.GetArgv(), Dir: start.GetCwd(), Env: start.GetEnv(), Timeout: milliseconds(start.GetTimeoutMs()),
		Merge: start.GetMergeStderr(), Caged: start.GetCage() != nil,
	}
	if start.GetTerminal() != nil {
		size := sizeFromProto(start.GetTerminal())
		c.Terminal = &size
	}
	return c
}

// milliseconds returns a duration; what does not fit into one is as long as one can be, which no limit allows.
func milliseconds(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

func sizeFromProto(t *sandboxsupervisorv1.Terminal) core.Size {
	return core.Size{Cols: t.GetCols(), Rows: t.GetRows()}
}

func startedToProto(e *core.Exec) *sandboxsupervisorv1.ExecEvent {
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Started{Started: &sandboxsupervisorv1.ExecStarted{
		ExecId: e.ID(), Pid: int64(e.PID()), StartedAt: e.StartedAt().UnixMilli(),
	}}}
}

func outputToProto(from core.Stream, data []byte) *sandboxsupervisorv1.ExecEvent {
	stream := sandboxsupervisorv1.Stream_STREAM_STDOUT
	if from == core.Stderr {
		stream = sandboxsupervisorv1.Stream_STREAM_STDERR
	}
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Output{Output: &sandboxsupervisorv1.ExecOutput{
		Stream: stream, Data: data,
	}}}
}

var reasons = map[core.Reason]sandboxsupervisorv1.KillReason{
	core.ReasonNone:       sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED,
	core.ReasonTimeout:    sandboxsupervisorv1.KillReason_KILL_REASON_TIMEOUT,
	core.ReasonCancelled:  sandboxsupervisorv1.KillReason_KILL_REASON_CANCELLED,
	core.ReasonOwnerEnded: sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED,
	core.ReasonLost:       sandboxsupervisorv1.KillReason_KILL_REASON_LOST,
	core.ReasonOOM:        sandboxsupervisorv1.KillReason_KILL_REASON_OOM,
	core.ReasonPIDs:       sandboxsupervisorv1.KillReason_KILL_REASON_PIDS,
	core.ReasonWalltime:   sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME,
	core.ReasonDisk:       sandboxsupervisorv1.KillReason_KILL_REASON_DISK,
	core.ReasonSeccomp:    sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP,
}

func exitedToProto(exit core.Exit) *sandboxsupervisorv1.ExecEvent {
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Exited{Exited: exitToProto(exit)}}
}

func exitToProto(exit core.Exit) *sandboxsupervisorv1.ExecExited {
	return &sandboxsupervisorv1.ExecExited{
		ExitCode: int32(exit.Code), Signal: exit.Signal, Reason: reasons[exit.Reason], DurationMs: exit.Duration.Milliseconds(),
	}
}

func processesToProto(list []core.Info) *sandboxsupervisorv1.ListProcessesResponse {
	res := &sandboxsupervisorv1.ListProcessesResponse{Processes: make([]*sandboxsupervisorv1.Process, 0, len(list))}
	for _, p := range list {
		res.Processes = append(res.Processes, processToProto(p))
	}
	return res
}

func processToProto(p core.Info) *sandboxsupervisorv1.Process {
	process := &sandboxsupervisorv1.Process{
		ExecId: p.ID,
		Owner: &sandboxsupervisorv1.Owner{
			SessionId: p.Owner.SessionID, RunId: p.Owner.RunID, CallId: p.Owner.CallID, ProjectId: p.Owner.ProjectID,
			AgentPath: p.Owner.Agent,
		},
		Pid: int64(p.PID), Command: p.Command, StartedAt: p.StartedAt.UnixMilli(),
		MemoryBytes: p.Usage.Memory, CpuMs: p.Usage.CPU.Milliseconds(),
		Detached: p.Detached, OutputStart: p.OutputStart, OutputEnd: p.OutputEnd,
	}
	if p.Exit != nil {
		process.Exited = exitToProto(*p.Exit)
	}
	return process
}

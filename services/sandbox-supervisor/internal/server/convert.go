package server

import (
	"math"
	"strings"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
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

func ownerFromProto(owner *sandboxsupervisorv1.Owner) core.Owner {
	return core.Owner{
		SessionID: owner.GetSessionId(), RunID: owner.GetRunId(), CallID: owner.GetCallId(), ProjectID: owner.GetProjectId(),
		Agent: owner.GetAgentPath(),
	}
}

func ownerToProto(owner core.Owner) *sandboxsupervisorv1.Owner {
	return &sandboxsupervisorv1.Owner{
		SessionId: owner.SessionID, RunId: owner.RunID, CallId: owner.CallID, ProjectId: owner.ProjectID, AgentPath: owner.Agent,
	}
}

func startFromProto(start *sandboxsupervisorv1.ExecStart) core.Command {
	c := core.Command{
		Owner: ownerFromProto(start.GetOwner()),
		Argv:  start.GetArgv(), Dir: start.GetCwd(), Env: start.GetEnv(), Timeout: milliseconds(start.GetTimeoutMs()),
		Merge: start.GetMergeStderr(), CageID: start.GetCageId(), Cage: dsl.CageFromProto(start.GetCage()), Root: start.GetProjectRoot(),
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

func exitedToProto(exit core.Exit, found []cage.Finding) *sandboxsupervisorv1.ExecEvent {
	exited := exitToProto(exit)
	exited.Found = findingsToProto(found)
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Exited{Exited: exited}}
}

func exitToProto(exit core.Exit) *sandboxsupervisorv1.ExecExited {
	return &sandboxsupervisorv1.ExecExited{
		ExitCode: int32(exit.Code), Signal: exit.Signal, Reason: reasons[exit.Reason], DurationMs: exit.Duration.Milliseconds(),
	}
}

func findingsToProto(found []cage.Finding) (list []*commonv1.CageFinding) {
	for _, f := range found {
		list = append(list, &commonv1.CageFinding{
			Kind: f.Kind, Path: strings.ToValidUTF8(f.Path, "\uFFFD"), Text: strings.ToValidUTF8(f.Text, "\uFFFD"),
		})
	}
	return list
}

func refusedToProto(a core.Attempt) *sandboxsupervisorv1.ExecEvent {
	return &sandboxsupervisorv1.ExecEvent{Event: &sandboxsupervisorv1.ExecEvent_Refused{Refused: attemptToProto(a)}}
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
		ExecId: p.ID, Owner: ownerToProto(p.Owner), CageId: p.CageID,
		Pid: int64(p.PID), Command: p.Command, StartedAt: p.StartedAt.UnixMilli(),
		MemoryBytes: p.Usage.Memory, CpuMs: p.Usage.CPU.Milliseconds(),
		Detached: p.Detached, OutputStart: p.OutputStart, OutputEnd: p.OutputEnd,
	}
	if p.Exit != nil {
		process.Exited = exitToProto(*p.Exit)
	}
	return process
}

func cageSpecFromProto(req *sandboxsupervisorv1.HoldCageRequest) core.CageSpec {
	return core.CageSpec{
		ID: req.GetCageId(), Owner: ownerFromProto(req.GetOwner()), Agent: req.GetAgentPath(),
		Policy: dsl.CageFromProto(req.GetPolicy()), Root: req.GetProjectRoot(),
	}
}

func cageToProto(c core.CageInfo) *sandboxsupervisorv1.Cage {
	return &sandboxsupervisorv1.Cage{
		CageId: c.ID, Owner: ownerToProto(c.Owner), AgentPath: c.Agent, StartedAt: c.StartedAt.UnixMilli(),
		Tier: c.Tier, BestEffort: c.BestEffort,
		MemoryBytes: c.Usage.Memory, CpuMs: c.Usage.CPU.Milliseconds(), Processes: int32(c.Processes),
	}
}

func attemptToProto(a core.Attempt) *commonv1.NetworkAttempt {
	return &commonv1.NetworkAttempt{
		At: a.At.UnixMilli(), Target: a.Target, Allowed: a.Allowed, Rule: a.Rule, Count: int64(a.Count),
	}
}

func probeToProto(r core.Report) *sandboxsupervisorv1.ProbeCagesResponse {
	res := &sandboxsupervisorv1.ProbeCagesResponse{Tier: r.Tier, Unavailable: r.Unavailable}
	for _, l := range r.Layers {
		res.Layers = append(res.Layers, &sandboxsupervisorv1.CageLayer{
			Name: l.Name, State: l.State, By: l.By, Reason: l.Reason, Fix: l.Fix,
		})
	}
	return res
}

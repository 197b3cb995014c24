// Package sandboxwire is the wire form of commands and cages between sandbox-supervisor and its callers: package
// contract in kaged.sandboxsupervisor.v1.
package sandboxwire

import (
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Owner returns an owner as a message.
func Owner(o contract.Owner) *sandboxsupervisorv1.Owner {
	return &sandboxsupervisorv1.Owner{
		SessionId: o.SessionID, RunId: o.RunID, CallId: o.CallID, ProjectId: o.ProjectID, AgentPath: o.Agent,
		Kind: sandboxsupervisorv1.OwnerKind(o.Kind), // the numbers are the same
	}
}

// FromOwner is the reverse of [Owner].
func FromOwner(p *sandboxsupervisorv1.Owner) contract.Owner {
	return contract.Owner{
		SessionID: p.GetSessionId(), RunID: p.GetRunId(), CallID: p.GetCallId(), ProjectID: p.GetProjectId(),
		Agent: p.GetAgentPath(), Kind: contract.OwnerKind(p.GetKind()),
	}
}

var reasons = map[contract.Reason]sandboxsupervisorv1.KillReason{
	contract.ReasonNone:       sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED,
	contract.ReasonTimeout:    sandboxsupervisorv1.KillReason_KILL_REASON_TIMEOUT,
	contract.ReasonCancelled:  sandboxsupervisorv1.KillReason_KILL_REASON_CANCELLED,
	contract.ReasonOwnerEnded: sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED,
	contract.ReasonLost:       sandboxsupervisorv1.KillReason_KILL_REASON_LOST,
	contract.ReasonOOM:        sandboxsupervisorv1.KillReason_KILL_REASON_OOM,
	contract.ReasonPIDs:       sandboxsupervisorv1.KillReason_KILL_REASON_PIDS,
	contract.ReasonWalltime:   sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME,
	contract.ReasonDisk:       sandboxsupervisorv1.KillReason_KILL_REASON_DISK,
	contract.ReasonSeccomp:    sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP,
}

// Reason returns a reason as an enum.
func Reason(r contract.Reason) sandboxsupervisorv1.KillReason { return reasons[r] }

// FromReason is the reverse of [Reason]. A reason that this build does not know is [contract.ReasonNone].
func FromReason(p sandboxsupervisorv1.KillReason) contract.Reason {
	for reason, known := range reasons {
		if known == p {
			return reason
		}
	}
	return contract.ReasonNone
}

// Exit returns the end of a command as a message.
func Exit(e contract.Exit) *sandboxsupervisorv1.ExecExited {
	return &sandboxsupervisorv1.ExecExited{
		ExitCode: int32(e.Code), Signal: e.Signal, Reason: Reason(e.Reason), DurationMs: e.Duration.Milliseconds(),
		Found: contract.FindingsProto(e.Found),
	}
}

// FromExit is the reverse of [Exit] for a command that ran.
func FromExit(p *sandboxsupervisorv1.ExecExited) contract.Exit {
	return contract.Exit{
		Code: int(p.GetExitCode()), Signal: p.GetSignal(), Reason: FromReason(p.GetReason()),
		Started: true, Duration: time.Duration(p.GetDurationMs()) * time.Millisecond,
		Found: contract.FindingsFromProto(p.GetFound()),
	}
}

// Process returns a command of the supervisor's list as a message.
func Process(p contract.Process) *sandboxsupervisorv1.Process {
	m := &sandboxsupervisorv1.Process{
		ExecId: p.ID, Owner: Owner(p.Owner), CageId: p.CageID, Pid: p.PID, Command: p.Command, StartedAt: p.StartedAt,
		MemoryBytes: p.Use.Memory, CpuMs: p.Use.CPU, Detached: p.Background,
		OutputStart: p.OutputStart, OutputEnd: p.OutputEnd,
	}
	if p.Exit != nil {
		m.Exited = Exit(*p.Exit)
	}
	return m
}

// FromProcess is the reverse of [Process].
func FromProcess(m *sandboxsupervisorv1.Process) contract.Process {
	p := contract.Process{
		RunningProcess: contract.RunningProcess{
			ID: m.GetExecId(), Owner: FromOwner(m.GetOwner()), CageID: m.GetCageId(), PID: m.GetPid(), Command: m.GetCommand(),
			StartedAt: m.GetStartedAt(), Use: contract.Use{Memory: m.GetMemoryBytes(), CPU: m.GetCpuMs()},
			Background: m.GetDetached(),
		},
		OutputStart: m.GetOutputStart(), OutputEnd: m.GetOutputEnd(),
	}
	if m.GetExited() != nil {
		exit := FromExit(m.GetExited())
		p.Exit = &exit
	}
	return p
}

// CageSpec returns the description of a cage as a request.
func CageSpec(s contract.CageSpec) *sandboxsupervisorv1.HoldCageRequest {
	return &sandboxsupervisorv1.HoldCageRequest{
		CageId: s.ID, Owner: Owner(s.Owner), AgentPath: s.Owner.Agent, Policy: s.Policy.Proto(), ProjectRoot: s.Root,
	}
}

// FromCageSpec is the reverse of [CageSpec].
func FromCageSpec(p *sandboxsupervisorv1.HoldCageRequest) contract.CageSpec {
	s := contract.CageSpec{
		ID: p.GetCageId(), Owner: FromOwner(p.GetOwner()), Policy: dsl.CageFromProto(p.GetPolicy()), Root: p.GetProjectRoot(),
	}
	s.Owner.Agent = p.GetAgentPath()
	return s
}

// Cage returns a cage that lives as a message.
func Cage(c contract.RunningCage) *sandboxsupervisorv1.Cage {
	return &sandboxsupervisorv1.Cage{
		CageId: c.ID, Owner: Owner(c.Owner), AgentPath: c.Owner.Agent, StartedAt: c.StartedAt, Tier: c.Tier,
		BestEffort: c.BestEffort, MemoryBytes: c.Use.Memory, CpuMs: c.Use.CPU, Processes: c.Processes, Notes: c.Notes,
	}
}

// FromCage is the reverse of [Cage].
func FromCage(p *sandboxsupervisorv1.Cage) contract.RunningCage {
	c := contract.RunningCage{
		Cage: contract.Cage{
			ID: p.GetCageId(), Tier: p.GetTier(), BestEffort: p.GetBestEffort(), Notes: p.GetNotes(),
		},
		Owner: FromOwner(p.GetOwner()), StartedAt: p.GetStartedAt(),
		Use: contract.Use{Memory: p.GetMemoryBytes(), CPU: p.GetCpuMs()}, Processes: p.GetProcesses(),
	}
	c.Owner.Agent = p.GetAgentPath()
	return c
}

// endings are the words for why a cage has ended. An end without a reason is a loss.
var endings = map[contract.Reason]string{
	contract.ReasonCancelled: "owner_ended", contract.ReasonOwnerEnded: "owner_ended", contract.ReasonOOM: "oom",
	contract.ReasonPIDs: "pids", contract.ReasonWalltime: "walltime", contract.ReasonDisk: "disk",
}

// FromCageEvent returns an event of a cage. An event that this build does not know is empty.
func FromCageEvent(p *sandboxsupervisorv1.HoldCageEvent) contract.CageEvent {
	switch e := p.GetEvent().(type) {
	case *sandboxsupervisorv1.HoldCageEvent_Opened:
		cage := FromCage(e.Opened).Cage
		return contract.CageEvent{Opened: &cage}
	case *sandboxsupervisorv1.HoldCageEvent_Network:
		attempt := contract.AttemptFromProto(e.Network)
		return contract.CageEvent{Network: &attempt}
	case *sandboxsupervisorv1.HoldCageEvent_Ended:
		ended, ok := endings[FromReason(e.Ended.GetReason())]
		if !ok {
			ended = "lost"
		}
		return contract.CageEvent{Ended: ended, Found: contract.FindingsFromProto(e.Ended.GetFound())}
	}
	return contract.CageEvent{}
}

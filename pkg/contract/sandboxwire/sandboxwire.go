// Package sandboxwire is the wire form of commands and cages between sandbox-supervisor and its callers: package
// contract in kaged.sandboxsupervisor.v1.
package sandboxwire

import (
	"kaged.dev/pkg/contract"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

//convert:use Reason FromReason
//convert:both Owner FromOwner contract.Owner *sandboxsupervisorv1.Owner Agent=AgentPath
//convert:both Exit FromExit contract.Exit *sandboxsupervisorv1.ExecExited Code=ExitCode <Started=true
//convert:both Process FromProcess contract.Process *sandboxsupervisorv1.Process ID=ExecId Background=Detached
//convert:with Use.Memory=MemoryBytes Use.CPU=CpuMs Exit=Exited
//convert:both CageSpec fromCageSpec contract.CageSpec *sandboxsupervisorv1.HoldCageRequest ID=CageId Root=ProjectRoot
//convert:with >AgentPath=in.Owner.Agent
//convert:both Cage fromCage contract.RunningCage *sandboxsupervisorv1.Cage ID=CageId Use.Memory=MemoryBytes
//convert:with Use.CPU=CpuMs >AgentPath=in.Owner.Agent <Summary=-

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

// Reason encodes a reason.
func Reason(r contract.Reason) sandboxsupervisorv1.KillReason { return reasons[r] }

// FromReason is the reverse of [Reason]. An unknown reason is [contract.ReasonNone].
func FromReason(p sandboxsupervisorv1.KillReason) contract.Reason {
	for reason, known := range reasons {
		if known == p {
			return reason
		}
	}
	return contract.ReasonNone
}

// FromCageSpec is the reverse of [CageSpec].
func FromCageSpec(p *sandboxsupervisorv1.HoldCageRequest) contract.CageSpec {
	s := fromCageSpec(p)
	s.Owner.Agent = p.GetAgentPath()
	return s
}

// FromCage is the reverse of [Cage].
func FromCage(p *sandboxsupervisorv1.Cage) contract.RunningCage {
	c := fromCage(p)
	c.Owner.Agent = p.GetAgentPath()
	return c
}

// endings are the names of reasons for a cage's end. An end without a reason is a loss.
var endings = map[contract.Reason]string{
	contract.ReasonCancelled: "owner_ended", contract.ReasonOwnerEnded: "owner_ended", contract.ReasonOOM: "oom",
	contract.ReasonPIDs: "pids", contract.ReasonWalltime: "walltime", contract.ReasonDisk: "disk",
}

// FromCageEvent decodes an event of a cage. An unknown event is empty.
func FromCageEvent(p *sandboxsupervisorv1.HoldCageEvent) contract.CageEvent {
	switch e := p.GetEvent().(type) {
	case *sandboxsupervisorv1.HoldCageEvent_Checked:
		return contract.CageEvent{Checked: true}
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

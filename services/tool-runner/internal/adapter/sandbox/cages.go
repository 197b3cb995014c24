package sandbox

import (
	"context"
	"errors"
	"io"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/command"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// Hold implements [command.Cages].
func (s *Sandbox) Hold(ctx context.Context, spec command.CageSpec, event func(command.CageEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.HoldCage(ctx, &sandboxsupervisorv1.HoldCageRequest{
		CageId: spec.ID, Owner: ownerToProto(spec.Owner), AgentPath: spec.Owner.Agent, Policy: spec.Policy.Proto(), ProjectRoot: spec.Root,
	})
	if err != nil {
		return err
	}
	opened := false
	for {
		message, err := stream.Recv()
		if err != nil {
			return heldNoMore(ctx, err, opened)
		}
		e := cageEventFromProto(message)
		opened = opened || e.Opened != nil
		if err := event(e); err != nil {
			return err
		}
		if e.Ended != "" {
			_, _ = stream.Recv() // the end of the stream follows at once
			return nil
		}
	}
}

// Release implements [command.Cages].
func (s *Sandbox) Release(ctx context.Context, id, session string) ([]command.Finding, error) {
	res, err := s.client.ReleaseCage(ctx, &sandboxsupervisorv1.ReleaseCageRequest{CageId: id, SessionId: session})
	if err != nil {
		return nil, err
	}
	return findingsFromProto(res.GetFound()), nil
}

func findingsFromProto(list []*commonv1.CageFinding) (found []command.Finding) {
	for _, f := range list {
		found = append(found, command.Finding{Kind: f.GetKind(), Path: f.GetPath(), Text: f.GetText()})
	}
	return found
}

// heldNoMore says what the end of a hold without the cage's means: the refusal of a cage that never was, or the loss of one.
func heldNoMore(ctx context.Context, err error, opened bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case opened || errors.Is(err, io.EOF):
		return fault.Wrap(err, fault.Unavailable, "The sandbox went away, and the agent's cage with it.").With("subsystem", "sandbox-supervisor")
	}
	return err
}

func cageEventFromProto(m *sandboxsupervisorv1.HoldCageEvent) command.CageEvent {
	switch e := m.GetEvent().(type) {
	case *sandboxsupervisorv1.HoldCageEvent_Opened:
		return command.CageEvent{Opened: &command.Cage{
			ID: e.Opened.GetCageId(), Tier: e.Opened.GetTier(), BestEffort: e.Opened.GetBestEffort(), Notes: e.Opened.GetNotes(),
		}}
	case *sandboxsupervisorv1.HoldCageEvent_Network:
		attempt := attemptFromProto(e.Network)
		return command.CageEvent{Network: &attempt}
	case *sandboxsupervisorv1.HoldCageEvent_Ended:
		return command.CageEvent{Ended: endings[e.Ended.GetReason()], Found: findingsFromProto(e.Ended.GetFound())}
	}
	return command.CageEvent{}
}

// endings are the words for why a cage has ended. One that the supervisor gives no reason for is lost all the same.
var endings = map[sandboxsupervisorv1.KillReason]string{
	sandboxsupervisorv1.KillReason_KILL_REASON_UNSPECIFIED: "lost",
	sandboxsupervisorv1.KillReason_KILL_REASON_TIMEOUT:     "lost",
	sandboxsupervisorv1.KillReason_KILL_REASON_CANCELLED:   "owner_ended",
	sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED: "owner_ended",
	sandboxsupervisorv1.KillReason_KILL_REASON_LOST:        "lost",
	sandboxsupervisorv1.KillReason_KILL_REASON_OOM:         "oom",
	sandboxsupervisorv1.KillReason_KILL_REASON_PIDS:        "pids",
	sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME:    "walltime",
	sandboxsupervisorv1.KillReason_KILL_REASON_DISK:        "disk",
	sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP:     "lost",
}

func attemptFromProto(a *commonv1.NetworkAttempt) command.Attempt {
	return command.Attempt{
		At: a.GetAt(), Target: a.GetTarget(), Allowed: a.GetAllowed(), Rule: a.GetRule(), Count: max(a.GetCount(), 1),
	}
}

func ownerToProto(o command.Owner) *sandboxsupervisorv1.Owner {
	return &sandboxsupervisorv1.Owner{
		SessionId: o.SessionID, RunId: o.RunID, CallId: o.CallID, ProjectId: o.ProjectID, AgentPath: o.Agent,
	}
}

func ownerFromProto(o *sandboxsupervisorv1.Owner) command.Owner {
	return command.Owner{
		SessionID: o.GetSessionId(), RunID: o.GetRunId(), CallID: o.GetCallId(), ProjectID: o.GetProjectId(), Agent: o.GetAgentPath(),
	}
}

// Running implements [command.Inventory].
func (s *Sandbox) Running(ctx context.Context, session string) (command.Running, error) {
	var running command.Running
	list, err := s.client.ListProcesses(ctx, &sandboxsupervisorv1.ListProcessesRequest{SessionId: session})
	if err != nil {
		return running, err
	}
	cages, err := s.client.ListCages(ctx, &sandboxsupervisorv1.ListCagesRequest{SessionId: session})
	if err != nil {
		return running, err
	}
	for _, p := range list.GetProcesses() {
		running.Processes = append(running.Processes, command.RunningProcess{
			ID: p.GetExecId(), Owner: ownerFromProto(p.GetOwner()), CageID: p.GetCageId(), PID: p.GetPid(), Command: p.GetCommand(),
			StartedAt: p.GetStartedAt(), Use: command.Use{Memory: p.GetMemoryBytes(), CPU: p.GetCpuMs()}, Background: p.GetDetached(),
		})
	}
	for _, c := range cages.GetCages() {
		owner := ownerFromProto(c.GetOwner())
		owner.Agent = c.GetAgentPath()
		running.Cages = append(running.Cages, command.RunningCage{
			Cage:  command.Cage{ID: c.GetCageId(), Tier: c.GetTier(), BestEffort: c.GetBestEffort()},
			Owner: owner, StartedAt: c.GetStartedAt(), Use: command.Use{Memory: c.GetMemoryBytes(), CPU: c.GetCpuMs()},
			Processes: c.GetProcesses(),
		})
	}
	return running, nil
}

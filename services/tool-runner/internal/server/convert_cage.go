package server

import (
	"kaged.dev/pkg/dsl"
	"kaged.dev/services/tool-runner/internal/core/command"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// cageEventToProto returns nil for an event that says nothing.
func cageEventToProto(e command.CageEvent, policy *dsl.Cage) *toolrunnerv1.HoldCageEvent {
	switch {
	case e.Opened != nil:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Opened{Opened: &toolrunnerv1.CageOpened{
			Tier: e.Opened.Tier, BestEffort: e.Opened.BestEffort, CageId: e.Opened.ID, Summary: policy.Summary(), Notes: e.Opened.Notes,
		}}}
	case e.Network != nil:
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Network{Network: &commonv1.NetworkAttempt{
			At: e.Network.At, Target: e.Network.Target, Allowed: e.Network.Allowed, Rule: e.Network.Rule, Count: e.Network.Count,
		}}}
	case e.Ended != "":
		return &toolrunnerv1.HoldCageEvent{Event: &toolrunnerv1.HoldCageEvent_Ended{Ended: &toolrunnerv1.CageEnded{Reason: e.Ended, Found: findingsToProto(e.Found)}}}
	}
	return nil
}

func findingsToProto(found []command.Finding) (list []*commonv1.CageFinding) {
	for _, f := range found {
		list = append(list, &commonv1.CageFinding{Kind: f.Kind, Path: f.Path, Text: f.Text})
	}
	return list
}

func runningToProto(r command.Running) *toolrunnerv1.ListProcessesResponse {
	resp := &toolrunnerv1.ListProcessesResponse{}
	for _, p := range r.Processes {
		process := &commonv1.RunningProcess{
			Id: p.ID, SessionId: p.Owner.SessionID, ProjectId: p.Owner.ProjectID, RunId: p.Owner.RunID, AgentPath: p.Owner.Agent,
			Pid: p.PID, Command: p.Command, StartedAt: p.StartedAt, MemoryBytes: p.Use.Memory, CpuMs: p.Use.CPU, Background: p.Background,
		}
		if p.CageID != "" {
			process.CageId = &p.CageID
		}
		resp.Processes = append(resp.Processes, process)
	}
	for _, c := range r.Cages {
		resp.Cages = append(resp.Cages, &commonv1.RunningCage{
			Id: c.ID, SessionId: c.Owner.SessionID, ProjectId: c.Owner.ProjectID, RunId: c.Owner.RunID, AgentPath: c.Owner.Agent,
			Tier: c.Tier, BestEffort: c.BestEffort, StartedAt: c.StartedAt, MemoryBytes: c.Use.Memory, CpuMs: c.Use.CPU, Processes: c.Processes,
		})
	}
	return resp
}

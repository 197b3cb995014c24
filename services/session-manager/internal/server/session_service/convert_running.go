package sessionservice

import (
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/sessions"
)

func running(r sessions.Running) *sessionmanagerv1.ListProcessesResponse {
	out := &sessionmanagerv1.ListProcessesResponse{}
	for _, a := range r.Runs {
		out.Runs = append(out.Runs, &sessionmanagerv1.ActiveRun{
			Id: a.ID, SessionId: a.SessionID, ProjectId: a.ProjectID, State: runStates[a.State], CageStatus: string(a.Cage), CreatedAt: a.CreatedAt,
			StartedAt: unlessZero(a.StartedAt), Prompt: a.Prompt,
		})
	}
	for _, p := range r.Processes {
		out.Processes = append(out.Processes, &commonv1.RunningProcess{
			Id: p.ID, SessionId: p.SessionID, ProjectId: p.ProjectID, RunId: p.RunID, AgentPath: p.AgentPath, CageId: text(p.CageID), Pid: p.PID,
			Command: p.Command, StartedAt: p.StartedAt, MemoryBytes: p.Use.Memory, CpuMs: p.Use.CPU, Background: p.Background,
		})
	}
	for _, c := range r.Cages {
		out.Cages = append(out.Cages, &commonv1.RunningCage{
			Id: c.ID, SessionId: c.SessionID, ProjectId: c.ProjectID, RunId: c.RunID, AgentPath: c.AgentPath, Tier: c.Tier, BestEffort: c.BestEffort,
			StartedAt: c.StartedAt, MemoryBytes: c.Use.Memory, CpuMs: c.Use.CPU, Processes: c.Processes,
		})
	}
	return out
}

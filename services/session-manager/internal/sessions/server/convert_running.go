package server

import (
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

func running(r sessions.Running) *apiv1.ListProcessesResponse {
	out := &apiv1.ListProcessesResponse{}
	for _, a := range r.Runs {
		out.Runs = append(out.Runs, &apiv1.ActiveRun{
			Id: a.ID, SessionId: a.SessionID, ProjectId: a.ProjectID, State: runStates[a.State], CageStatus: string(a.Cage),
			CreatedAt: a.CreatedAt, StartedAt: unlessZero(a.StartedAt), Prompt: a.Prompt,
			LiveSubagents: liveAgents(a.Agents),
		})
	}
	for _, p := range r.Processes {
		out.Processes = append(out.Processes, p.Proto())
	}
	for _, c := range r.Cages {
		out.Cages = append(out.Cages, c.Proto())
	}
	return out
}

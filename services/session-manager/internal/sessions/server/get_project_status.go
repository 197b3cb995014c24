package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// GetProjectStatus returns statistics of a project's sessions and recent work.
func (s *Server) GetProjectStatus(
	ctx context.Context, req *apiv1.GetProjectStatusRequest,
) (*apiv1.GetProjectStatusResponse, error) {
	found, err := s.sessions.Status(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	counts := &apiv1.SessionCounts{
		Running: int32(found.Sessions[record.Running]), Paused: int32(found.Sessions[record.Paused]),
		Idle:  int32(found.Sessions[record.Idle] + found.Sessions[record.Failed]),
		Ended: int32(found.Sessions[record.Ended]), Queued: int32(found.Sessions[record.Queued]),
	}
	counts.Total = counts.GetRunning() + counts.GetIdle() + counts.GetPaused() + counts.GetEnded() + counts.GetQueued()
	resp := &apiv1.GetProjectStatusResponse{Sessions: counts, Activity: &apiv1.ProjectActivity{
		LiveSubagents: int32(found.LiveAgents), ToolCalls_24H: int32(found.Answers), Budget_24H: &apiv1.ProjectBudget{
			TotalCost: *found.Used.CostUSD, TotalTokensIn: found.Used.TokensIn, TotalTokensOut: found.Used.TokensOut,
		},
	}}
	for _, r := range found.Recent {
		resp.RecentRuns = append(resp.RecentRuns, recentToProto(r))
	}
	return resp, nil
}

func recentToProto(r record.Run) *apiv1.RecentRun {
	out := &apiv1.RecentRun{
		Id: r.ID, SessionId: r.SessionID, State: runStates[r.State], TokensIn: r.Totals.TokensIn,
		TokensOut: r.Totals.TokensOut, CostTotal: r.Totals.CostUSD, CreatedAt: r.CreatedAt,
	}
	if r.StartedAt > 0 && r.EndedAt > 0 {
		took := r.EndedAt - r.StartedAt
		out.DurationMs = &took
	}
	return out
}

// Package tools asks a workspace's tool-runner what runs for sessions, and tells it that one has ended.
package tools

import (
	"context"

	"google.golang.org/grpc"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/sessions"
	"kaged.dev/services/session-manager/internal/wire"
)

// Tools implements [sessions.Tools].
type Tools struct {
	client toolrunnerv1.ToolRunnerServiceClient
}

// New returns a Tools that calls over conn. There is one workspace so far, whatever it is called.
func New(conn grpc.ClientConnInterface) *Tools {
	return &Tools{toolrunnerv1.NewToolRunnerServiceClient(conn)}
}

// EndSession implements [sessions.Tools]. It waits for a tool-runner that is being restarted, as long as ctx lasts.
func (t *Tools) EndSession(ctx context.Context, _, session string) ([]audit.Record, error) {
	resp, err := t.client.EndSession(ctx, &toolrunnerv1.EndSessionRequest{SessionId: session}, grpc.WaitForReady(true))
	return wire.FromAudit(resp.GetAudit()), err
}

// Running implements [sessions.Tools].
func (t *Tools) Running(ctx context.Context, _, session string) (sessions.Running, error) {
	resp, err := t.client.ListProcesses(ctx, &toolrunnerv1.ListProcessesRequest{SessionId: session})
	if err != nil {
		return sessions.Running{}, err
	}
	var out sessions.Running
	for _, p := range resp.GetProcesses() {
		out.Processes = append(out.Processes, sessions.RunningProcess{
			ID: p.GetId(), CageID: p.GetCageId(), PID: p.GetPid(), Command: p.GetCommand(), StartedAt: p.GetStartedAt(),
			Work: sessions.Work{SessionID: p.GetSessionId(), ProjectID: p.GetProjectId(), RunID: p.GetRunId(), AgentPath: p.GetAgentPath()},
			Use:  sessions.Use{Memory: p.GetMemoryBytes(), CPU: p.GetCpuMs()}, Background: p.GetBackground(),
		})
	}
	for _, c := range resp.GetCages() {
		out.Cages = append(out.Cages, sessions.RunningCage{
			ID: c.GetId(), Tier: c.GetTier(), BestEffort: c.GetBestEffort(), StartedAt: c.GetStartedAt(), Processes: c.GetProcesses(),
			Work: sessions.Work{SessionID: c.GetSessionId(), ProjectID: c.GetProjectId(), RunID: c.GetRunId(), AgentPath: c.GetAgentPath()},
			Use:  sessions.Use{Memory: c.GetMemoryBytes(), CPU: c.GetCpuMs()},
		})
	}
	return out, nil
}

package toolrunner

import (
	"context"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/toolwire"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// EndSession implements [sessions.Tools]. It waits for an unreachable tool-runner, such as one that is restarting,
// until ctx ends.
func (w *Workspaces) EndSession(ctx context.Context, workspace, session string) ([]contract.Record, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return nil, err
	}
	resp, err := client.EndSession(ctx, &toolrunnerv1.EndSessionRequest{SessionId: session}, grpc.WaitForReady(true))
	return contract.RecordsFromProto(resp.GetAudit()), err
}

// SignalProcess implements [sessions.Tools].
func (w *Workspaces) SignalProcess(ctx context.Context, workspace, session, process, signal string) error {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return err
	}
	_, err = client.SignalProcess(ctx, &toolrunnerv1.SignalProcessRequest{
		SessionId: session, ProcessId: process, Signal: signal,
	})
	return err
}

// Running implements [sessions.Tools].
func (w *Workspaces) Running(ctx context.Context, workspace, session string) (sessions.Running, error) {
	client, err := w.open(ctx, workspace)
	if err != nil {
		return sessions.Running{}, err
	}
	resp, err := client.ListProcesses(ctx, &toolrunnerv1.ListProcessesRequest{SessionId: session})
	if err != nil {
		return sessions.Running{}, err
	}
	return sessions.Running{Running: toolwire.FromRunning(resp)}, nil
}

package server

import (
	"context"

	"kaged.dev/pkg/contract"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// TerminalServer is the gRPC service TerminalService for gateways.
type TerminalServer struct {
	sessionmanagerv1.UnimplementedTerminalServiceServer
	sessions *sessions.Service
}

// NewTerminal returns a TerminalServer.
func NewTerminal(s *sessions.Service) *TerminalServer { return &TerminalServer{sessions: s} }

// OpenTerminal returns a background process of a session and its workspace.
func (s *TerminalServer) OpenTerminal(
	ctx context.Context, req *sessionmanagerv1.OpenTerminalRequest,
) (*sessionmanagerv1.OpenTerminalResponse, error) {
	p, workspace, err := s.sessions.Terminal(ctx, req.GetSessionId(), req.GetProcessId())
	if err != nil {
		return nil, err
	}
	res := &sessionmanagerv1.OpenTerminalResponse{Workspace: workspace}
	if req.GetProcessId() != "" {
		res.Terminal = &sessionmanagerv1.Terminal{
			ProcessId: p.ID, Pid: p.PID, Command: p.Command, RunId: p.Owner.RunID, AgentPath: p.Owner.Agent,
		}
	}
	return res, nil
}

// RecordTerminalInput stores the audit record of terminal input.
func (s *TerminalServer) RecordTerminalInput(
	ctx context.Context, req *sessionmanagerv1.RecordTerminalInputRequest,
) (*sessionmanagerv1.RecordTerminalInputResponse, error) {
	p := req.GetTerminal()
	err := s.sessions.RecordInput(ctx, sessions.TerminalInput{
		Session: req.GetSessionId(), Data: req.GetInput(), Hidden: req.GetHidden(), Length: req.GetLength(),
		Process: contract.RunningProcess{
			ID: p.GetProcessId(), PID: p.GetPid(), Command: p.GetCommand(),
			Owner: contract.Owner{RunID: p.GetRunId(), Agent: p.GetAgentPath()},
		},
	})
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.RecordTerminalInputResponse{}, nil
}

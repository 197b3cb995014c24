package server

import (
	"context"

	"kaged.dev/pkg/optional"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
	"kaged.dev/services/session-manager/internal/wire"
)

// CreateSession creates a session. It starts no run.
func (s *Server) CreateSession(
	ctx context.Context, req *apiv1.CreateSessionRequest,
) (*apiv1.CreateSessionResponse, error) {
	bound, err := budgetField(req.GetBudget())
	if err != nil {
		return nil, err
	}
	in := sessions.NewSession{
		ProjectID: req.GetProjectId(), Name: req.GetName(), Label: req.GetLabel(), ResumeFrom: req.GetResumeFrom(),
		Issue: req.GetIssueNumber(),
	}
	if bound.Value != nil {
		in.Budget = *bound.Value
	}
	created, err := s.sessions.Create(ctx, in)
	if err != nil {
		return nil, err
	}
	return &apiv1.CreateSessionResponse{
		Id: created.ID, ProjectId: created.ProjectID, State: wire.SessionStates[created.State], CreatedAt: created.CreatedAt,
		Name: optional.NonZero(created.Label), Label: optional.NonZero(created.Label),
		IssueNumber: optional.NonZero(created.Issue),
	}, nil
}

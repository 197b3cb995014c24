package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
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
		Id: created.ID, ProjectId: created.ProjectID, State: state(created.State), CreatedAt: created.CreatedAt,
		Name: text(created.Label), Label: text(created.Label), IssueNumber: unlessZero(created.Issue),
	}, nil
}

package server

import (
	"context"

	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// SearchSessions lists the operator's sessions of all projects, or those with some words, newest first, a page at a time.
func (s *Server) SearchSessions(
	ctx context.Context, req *apiv1.SearchSessionsRequest,
) (*apiv1.SearchSessionsResponse, error) {
	p, err := s.sessions.Search(ctx, req.GetProjectId(), req.Q, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.SearchSessionsResponse{Items: page.Map(p, found).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore()}, nil
}

func found(f sessions.Found) *apiv1.FoundSession {
	s := summary(f.Session)
	return &apiv1.FoundSession{
		Id: s.GetId(), ProjectId: s.GetProjectId(), Name: s.Name, Label: s.Label, State: s.GetState(), CreatedAt: s.GetCreatedAt(),
		UpdatedAt: s.GetUpdatedAt(), ModelOverride: s.ModelOverride, MaxStepsOverride: s.MaxStepsOverride,
		MaxOutputTokensOverride: s.MaxOutputTokensOverride, MessageCount: s.GetMessageCount(), IssueNumber: s.IssueNumber,
		MatchedMessageId: text(f.Message),
	}
}

package server

import (
	"context"

	"kaged.dev/pkg/optional"
	"kaged.dev/pkg/page"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// SearchSessions returns a page of the caller's sessions, newest first, optionally of one project or with given
// words.
func (s *Server) SearchSessions(
	ctx context.Context, req *apiv1.SearchSessionsRequest,
) (*apiv1.SearchSessionsResponse, error) {
	p, err := s.sessions.Search(ctx, req.GetProjectId(), req.Q, req.GetLimit(), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &apiv1.SearchSessionsResponse{
		Items: page.Map(p, found).Items, NextCursor: p.NextCursor(), HasMore: p.HasMore(),
	}, nil
}

func found(f sessions.Found) *apiv1.FoundSession {
	s := foundSession(summary(f.Session))
	s.MatchedMessageId = optional.NonZero(f.Message)
	if r := f.LastRun; r != nil {
		s.LastRun = &apiv1.LastRun{Id: r.ID, State: runStates[r.State], EndedAt: r.EndedAt, Error: r.Error.Proto()}
	}
	return s
}

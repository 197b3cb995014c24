package server

import (
	"context"

	"kaged.dev/pkg/contract"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// GetDebug returns the debug sessions of a session, and a view of one.
func (s *Server) GetDebug(ctx context.Context, req *apiv1.GetDebugRequest) (*apiv1.GetDebugResponse, error) {
	found, err := s.sessions.Debug(ctx, sessions.DebugLook{
		Session: req.GetSessionId(), ID: req.GetDebugSessionId(), Frame: req.GetFrameId(), Output: req.GetOutputFrom(),
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.GetDebugResponse{
		Sessions: contract.DebugSessionsProto(found.Sessions), Debug: found.View.Proto(),
	}, nil
}

package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ResumeSession starts the run of a queued session.
func (s *Server) ResumeSession(
	ctx context.Context, req *apiv1.ResumeSessionRequest,
) (*apiv1.ResumeSessionResponse, error) {
	r, err := s.sessions.Resume(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &apiv1.ResumeSessionResponse{
		SessionId: r.SessionID, RunId: r.RunID, State: apiv1.SessionState_SESSION_STATE_RUNNING, ResumedAt: r.At,
	}, nil
}

// DiscardQueued withdraws the messages of a queued session.
func (s *Server) DiscardQueued(
	ctx context.Context, req *apiv1.DiscardQueuedRequest,
) (*apiv1.DiscardQueuedResponse, error) {
	d, err := s.sessions.Discard(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &apiv1.DiscardQueuedResponse{
		SessionId: d.SessionID, State: apiv1.SessionState_SESSION_STATE_IDLE, MessageId: d.MessageID, RunId: d.RunID,
		DiscardedAt: d.At,
	}, nil
}

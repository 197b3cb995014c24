package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// GetToolResult returns one tool result with the input of its call.
func (s *Server) GetToolResult(
	ctx context.Context, req *apiv1.GetToolResultRequest,
) (*apiv1.GetToolResultResponse, error) {
	blocks, err := s.sessions.ToolResult(ctx, req.GetSessionId(), req.GetRunId(), req.GetToolCallId())
	if err != nil {
		return nil, err
	}
	shown := parts(blocks, answerBytes)
	return &apiv1.GetToolResultResponse{Result: shown[len(shown)-1]}, nil
}

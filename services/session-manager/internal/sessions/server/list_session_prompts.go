package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// ListSessionPrompts returns the system prompts of the active agents of a session.
func (s *Server) ListSessionPrompts(
	ctx context.Context, req *apiv1.ListSessionPromptsRequest,
) (*apiv1.ListSessionPromptsResponse, error) {
	prompts, err := s.sessions.Prompts(ctx, req.GetSessionId())
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListSessionPromptsResponse{}
	for _, p := range prompts {
		item := &apiv1.SessionPrompt{AgentPath: p.AgentPath, Path: p.Path, Sha256: p.SHA256, Text: p.Text}
		if p.InvocationID != "" {
			item.InvocationId = &p.InvocationID
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

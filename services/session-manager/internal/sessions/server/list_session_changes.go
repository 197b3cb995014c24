package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// ListSessionChanges returns the changed files of a session.
func (s *Server) ListSessionChanges(
	ctx context.Context, req *apiv1.ListSessionChangesRequest,
) (*apiv1.ListSessionChangesResponse, error) {
	found, err := s.sessions.Changes(ctx, req.GetSessionId(), req.GetPath())
	if err != nil {
		return nil, err
	}
	resp := &apiv1.ListSessionChangesResponse{Truncated: found.Truncated}
	if found.Head != "" {
		resp.Head = &found.Head
	}
	for _, f := range found.Files {
		resp.Items = append(resp.Items, changeToProto(f))
	}
	return resp, nil
}

func changeToProto(f sessions.FileChange) *apiv1.FileChange {
	out := &apiv1.FileChange{Path: f.Path, Kind: f.Kind, Origin: f.Origin, Agents: f.Agents, Truncated: f.Truncated}
	if f.NoDiff != "" {
		out.NoDiff = &f.NoDiff
		return out
	}
	out.Added, out.Removed, out.Diff = &f.Added, &f.Removed, &f.Diff
	return out
}

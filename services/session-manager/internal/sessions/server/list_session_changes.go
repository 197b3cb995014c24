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
		resp.Items = append(resp.Items, fileChange(f))
	}
	return resp, nil
}

//convert:one fileChange sessions.FileChange *apiv1.FileChange >Added=ofDiff(in,in.Added) >Removed=ofDiff(in,in.Removed)
//convert:with >Diff=ofDiff(in,in.Diff)

// ofDiff returns a value of a file's diff, nil without a diff.
func ofDiff[T any](c sessions.FileChange, v T) *T {
	if c.NoDiff != "" {
		return nil
	}
	return &v
}

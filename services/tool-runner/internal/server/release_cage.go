package server

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"

	"kaged.dev/pkg/contract"
)

// ReleaseCage releases a cage and returns its findings.
func (s *Server) ReleaseCage(
	ctx context.Context,
	req *toolrunnerv1.ReleaseCageRequest,
) (*toolrunnerv1.ReleaseCageResponse, error) {
	found, err := s.runner.ReleaseCage(ctx, req.GetCageId(), req.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &toolrunnerv1.ReleaseCageResponse{Found: contract.FindingsProto(found)}, nil
}

package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// GetAuthEpoch returns the secret from which cookies and CSRF tokens are derived.
func (s *Server) GetAuthEpoch(
	ctx context.Context, _ *sessionmanagerv1.GetAuthEpochRequest,
) (*sessionmanagerv1.GetAuthEpochResponse, error) {
	secret, err := s.operator.Epoch(ctx)
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.GetAuthEpochResponse{Secret: secret}, nil
}

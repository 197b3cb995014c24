package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// RotateAuthEpoch replaces the secret.
func (s *Server) RotateAuthEpoch(
	ctx context.Context, _ *sessionmanagerv1.RotateAuthEpochRequest,
) (*sessionmanagerv1.RotateAuthEpochResponse, error) {
	secret, err := s.operator.RotateEpoch(ctx)
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.RotateAuthEpochResponse{Secret: secret}, nil
}

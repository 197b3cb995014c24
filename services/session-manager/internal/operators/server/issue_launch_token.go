package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// IssueLaunchToken creates a single-use token.
func (s *Server) IssueLaunchToken(
	ctx context.Context, _ *sessionmanagerv1.IssueLaunchTokenRequest,
) (*sessionmanagerv1.IssueLaunchTokenResponse, error) {
	token, err := s.operator.IssueLaunchToken(ctx)
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.IssueLaunchTokenResponse{Token: token}, nil
}

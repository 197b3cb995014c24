package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// ConsumeLaunchToken uses a token up.
func (s *Server) ConsumeLaunchToken(
	ctx context.Context, req *sessionmanagerv1.ConsumeLaunchTokenRequest,
) (*sessionmanagerv1.ConsumeLaunchTokenResponse, error) {
	if err := s.operator.ConsumeLaunchToken(ctx, req.GetToken()); err != nil {
		return nil, err
	}
	return &sessionmanagerv1.ConsumeLaunchTokenResponse{}, nil
}

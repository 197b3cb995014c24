package server

import (
	"context"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// AuthenticateToken returns the owner and scope of an API token.
func (s *Server) AuthenticateToken(
	ctx context.Context, req *sessionmanagerv1.AuthenticateTokenRequest,
) (*sessionmanagerv1.AuthenticateTokenResponse, error) {
	t, err := s.tokens.Authenticate(ctx, req.GetToken())
	if err != nil {
		return nil, err
	}
	return &sessionmanagerv1.AuthenticateTokenResponse{
		UserId: t.Owner, TokenId: t.ID,
		Scope: scopeToProto(t.Scope),
	}, nil
}

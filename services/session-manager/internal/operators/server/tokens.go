package server

import (
	"context"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
)

// Tokens is the gRPC service TokenService. Its handlers convert messages and call core.
type Tokens struct {
	sessionmanagerv1.UnimplementedTokenServiceServer
	tokens *tokens.Service
}

// NewTokens returns a Tokens.
func NewTokens(service *tokens.Service) *Tokens { return &Tokens{tokens: service} }

// scopes has no entry for an unspecified scope, which is invalid.
var scopes = map[apiv1.TokenScope]tokens.Scope{
	apiv1.TokenScope_TOKEN_SCOPE_READ: tokens.Read, apiv1.TokenScope_TOKEN_SCOPE_RUN: tokens.Run,
	apiv1.TokenScope_TOKEN_SCOPE_ADMIN: tokens.Admin,
}

func scopeToProto(s tokens.Scope) apiv1.TokenScope {
	for p, scope := range scopes {
		if scope == s {
			return p
		}
	}
	return apiv1.TokenScope_TOKEN_SCOPE_UNSPECIFIED
}

// CreateToken creates a token.
func (s *Tokens) CreateToken(ctx context.Context, req *apiv1.CreateTokenRequest) (*apiv1.CreateTokenResponse, error) {
	t, text, err := s.tokens.Create(ctx, req.GetName(), scopes[req.GetScope()], req.GetExpiresAt())
	if err != nil {
		return nil, err
	}
	return createdToken(t, text), nil
}

// ListTokens lists the caller's tokens.
func (s *Tokens) ListTokens(ctx context.Context, _ *apiv1.ListTokensRequest) (*apiv1.ListTokensResponse, error) {
	list, err := s.tokens.List(ctx)
	resp := &apiv1.ListTokensResponse{}
	for _, t := range list {
		resp.Items = append(resp.Items, tokenToProto(t))
	}
	return resp, err
}

// RevokeToken invalidates a token.
func (s *Tokens) RevokeToken(ctx context.Context, req *apiv1.RevokeTokenRequest) (*apiv1.RevokeTokenResponse, error) {
	t, err := s.tokens.Revoke(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &apiv1.RevokeTokenResponse{Token: tokenToProto(t)}, nil
}

//convert:use scopeToProto
//convert:one tokenToProto tokens.Token *apiv1.Token
//convert:one createdToken(text string) tokens.Token *apiv1.CreateTokenResponse >Token=text

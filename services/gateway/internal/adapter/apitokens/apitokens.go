// Package apitokens authenticates API tokens in session-manager, once per request, so that a revoked token is
// refused at once.
package apitokens

import (
	"context"
	"strings"

	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// Tokens implements access.Tokens.
type Tokens struct {
	Operators sessionmanagerv1.OperatorServiceClient
}

// Authenticate implements access.Tokens.
func (t Tokens) Authenticate(ctx context.Context, text string) (access.Token, error) {
	resp, err := t.Operators.AuthenticateToken(ctx, &sessionmanagerv1.AuthenticateTokenRequest{Token: text})
	if err != nil {
		return access.Token{}, err
	}
	scope := strings.ToLower(strings.TrimPrefix(resp.GetScope().String(), "TOKEN_SCOPE_"))
	return access.Token{UserID: resp.GetUserId(), ID: resp.GetTokenId(), Scope: access.Scope(scope)}, nil
}

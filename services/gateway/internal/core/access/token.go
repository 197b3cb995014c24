package access

import (
	"context"

	"kaged.dev/pkg/fault"
)

// TokenPrefix is the prefix of each API token. Bearer credentials without it are ignored, because a sign-in proxy
// may forward its own.
const TokenPrefix = "kaged_"

// Scope is the scope of an API token.
type Scope string

// The scopes of tokens. Each allows everything that the scopes before it allow.
const (
	ScopeRead  Scope = "read"
	ScopeRun   Scope = "run"
	ScopeAdmin Scope = "admin"
)

// NoToken is the requirement of a route that refuses every token.
const NoToken Scope = "none"

var ranks = map[Scope]int{ScopeRead: 1, ScopeRun: 2, ScopeAdmin: 3, NoToken: 4}

// Allows reports whether a token of scope s may use a route that needs a scope. Unknown scopes allow no route.
func (s Scope) Allows(needed Scope) bool {
	return ranks[s] > 0 && ranks[needed] > 0 && ranks[s] >= ranks[needed]
}

// Token is the owner, id and scope of an API token.
type Token struct {
	UserID, ID string
	Scope      Scope
}

// Tokens authenticates API tokens.
type Tokens interface {
	// Authenticate returns the token with this text. It fails with fault.Unauthenticated for an invalid token, and
	// with fault.Unavailable while session-manager is unavailable.
	Authenticate(ctx context.Context, text string) (Token, error)
}

// byToken returns the operator of an API token. In sidecar mode it also requires the nonce, and the sidecar must
// name the token's operator or no operator.
func (g *Gate) byToken(ctx context.Context, c Credentials) (Identity, Reason, error) {
	if g.Mode == Sidecar {
		switch {
		case c.Nonce == "":
			return Identity{}, MissingNonce, nil
		case g.Nonce == "" || !equal(g.Nonce, c.Nonce):
			return Identity{}, WrongNonce, nil
		}
	}
	t, err := g.Tokens.Authenticate(ctx, c.Token)
	switch {
	case fault.CodeOf(err) == fault.Unauthenticated:
		return Identity{}, InvalidToken, nil
	case err != nil:
		return Identity{}, "", err
	case !ValidUser(t.UserID), g.Mode == Loopback && g.Operator != t.UserID,
		g.Mode == Sidecar && c.UserID != "" && c.UserID != t.UserID:
		return Identity{}, TokenOfAnother, nil
	}
	id := Identity{UserID: t.UserID, Email: t.UserID + "@localhost", Token: t.ID, Scope: t.Scope}
	if g.Mode == Sidecar {
		id.Email = ""
	}
	return id, "", nil
}

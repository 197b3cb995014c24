package access

import (
	"context"

	"kaged.dev/pkg/fault"
)

// TokenPrefix begins the text of each API token. Bearer credentials of other forms are ignored: a sign-in proxy may
// pass its own on.
const TokenPrefix = "kaged_"

// Scope is how much an API token allows.
type Scope string

// The scopes of tokens, each with all that the ones before allow.
const (
	ScopeRead  Scope = "read"
	ScopeRun   Scope = "run"
	ScopeAdmin Scope = "admin"
)

// NoToken is the need of a route that refuses every token.
const NoToken Scope = "none"

var ranks = map[Scope]int{ScopeRead: 1, ScopeRun: 2, ScopeAdmin: 3, NoToken: 4}

// Allows reports whether a token of scope s may use a route with a need. Unknown scopes and needs allow no route.
func (s Scope) Allows(needed Scope) bool {
	return ranks[s] > 0 && ranks[needed] > 0 && ranks[s] >= ranks[needed]
}

// Token is the owner, the id and the scope of an API token.
type Token struct {
	UserID, ID string
	Scope      Scope
}

// Tokens knows API tokens.
type Tokens interface {
	// Authenticate returns the token with a text. It fails with fault.Unauthenticated for an invalid one, and with
	// fault.Unavailable while session-manager does not answer.
	Authenticate(ctx context.Context, text string) (Token, error)
}

// byToken returns the operator of an API token. A sidecar proves itself first, and names the same operator or no
// operator.
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

package access

import (
	"context"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
)

// Mode is how an operator is recognised.
type Mode string

// The modes.
const (
	// Loopback lets in holders of the session cookie, which a launch URL hands out.
	Loopback Mode = "loopback"
	// Sidecar lets in the operator that an upstream proxy names, if it knows the nonce.
	Sidecar Mode = "sidecar"
	// Insecure lets in every caller.
	Insecure Mode = "insecure"
)

// InsecureUser is the operator of a request without a name in [Insecure] mode.
const InsecureUser = "insecure-mode"

// maxUser is the longest user id in bytes.
const maxUser = 256

// Identity is the caller of a request. It has the same shape in every mode.
type Identity struct {
	// UserID is the operator: printable ASCII, at most 256 bytes.
	UserID string
	// Email is for display only.
	Email string
	// Groups are those that the sidecar names; one of them may be the administrators'.
	Groups []string
	// Token is the id of the request's API token, "" for an operator in person, and Scope its scope.
	Token string
	Scope Scope
	// Admin says that the operator is an administrator of the deployment. A token never makes one.
	Admin bool
}

// Credentials are the credentials of a request.
type Credentials struct {
	// Session is the session cookie, or "".
	Session string
	// UserID, Email, Groups and Nonce are the sidecar's headers, or "".
	UserID, Email, Groups, Nonce string
	// Token is the API token, "" without one.
	Token string
}

// Reason is why a request was refused, for the audit only: the answer never tells.
type Reason string

// The reasons.
const (
	MissingCookie Reason = "missing_cookie"
	InvalidCookie Reason = "invalid_cookie"
	MissingNonce  Reason = "missing_nonce"
	WrongNonce    Reason = "wrong_nonce"
	MissingUser   Reason = "missing_user"
	InvalidUser   Reason = "invalid_user"
	InvalidToken  Reason = "invalid_token"
	// TokenOfAnother refuses a token of another operator than the sidecar's, or than [Loopback]'s.
	TokenOfAnother Reason = "token_of_another"
	// TooSmall refuses a token of less scope than the route needs.
	TooSmall Reason = "token_scope"
)

// Gate recognises operators.
type Gate struct {
	// Mode is how.
	Mode Mode
	// Operator is the user of the operating system, the operator of [Loopback].
	Operator string
	// Nonce is the sidecar's proof; without one [Sidecar] refuses all.
	Nonce string
	// Secrets has the secret that the session cookie is derived from.
	Secrets Secrets
	// AdminGroup is the group of administrators, as the sidecar names it; "" for no administrators.
	AdminGroup string
	// Tokens are API tokens, which count in every mode but [Insecure].
	Tokens Tokens
}

// Identify returns the caller with these credentials. It fails with fault.Unauthenticated, always with the same
// text and a Reason for the audit, and with fault.Unavailable while the secret is not known.
func (g *Gate) Identify(ctx context.Context, c Credentials) (Identity, Reason, error) {
	var id Identity
	var reason Reason
	var err error
	switch {
	case g.Mode == Insecure:
		id, reason = g.insecure(c)
	case c.Token != "":
		id, reason, err = g.byToken(ctx, c)
	case g.Mode == Sidecar:
		id, reason = g.sidecar(c)
	default:
		id, reason, err = g.loopback(ctx, c)
	}
	if err == nil && reason != "" {
		err = fault.New(fault.Unauthenticated,
			"Sign in first: open a launch URL, come through the sign-in proxy, or send an API token.")
	}
	return id, reason, err
}

// Configured reports whether any caller can be let in at all.
func (g *Gate) Configured() bool { return g.Mode != Sidecar || g.Nonce != "" }

func (g *Gate) loopback(ctx context.Context, c Credentials) (Identity, Reason, error) {
	if c.Session == "" {
		return Identity{}, MissingCookie, nil
	}
	ok, err := matches(ctx, g.Secrets, c.Session, SessionToken)
	if err != nil {
		return Identity{}, "", err
	}
	if !ok {
		return Identity{}, InvalidCookie, nil
	}
	return Identity{UserID: g.Operator, Email: g.Operator + "@localhost"}, "", nil
}

// SignedOut calls f once the browser that sent a session cookie is signed out, unless stop was called before. It
// never does so in other modes than [Loopback], where sign-in belongs to a proxy. f must not block, and may run more
// than once.
func (g *Gate) SignedOut(ctx context.Context, session string, f func()) (stop func()) {
	if g.Mode != Loopback {
		return func() {}
	}
	stop = g.Secrets.Replaced(f)
	// The secret may have been replaced since the request was let in.
	if ok, err := matches(ctx, g.Secrets, session, SessionToken); err == nil && !ok {
		f()
	}
	return stop
}

func (g *Gate) sidecar(c Credentials) (Identity, Reason) {
	switch {
	case c.Nonce == "":
		return Identity{}, MissingNonce
	case g.Nonce == "" || !equal(g.Nonce, c.Nonce):
		return Identity{}, WrongNonce
	case c.UserID == "":
		return Identity{}, MissingUser
	case !printable(c.UserID):
		return Identity{}, InvalidUser
	}
	id := named(c)
	id.Admin = g.AdminGroup != "" && slices.Contains(id.Groups, g.AdminGroup)
	return id, ""
}

func (g *Gate) insecure(c Credentials) (Identity, Reason) {
	if c.UserID == "" || !printable(c.UserID) {
		return Identity{UserID: InsecureUser, Email: InsecureUser + "@localhost"}, ""
	}
	return named(c), ""
}

func named(c Credentials) Identity {
	id := Identity{UserID: c.UserID}
	if printable(c.Email) {
		id.Email = c.Email
	}
	for group := range strings.SplitSeq(c.Groups, ",") {
		if group = strings.TrimSpace(group); group != "" {
			id.Groups = append(id.Groups, group)
		}
	}
	return id
}

// printable reports whether s can travel as a header between services.
// ValidUser reports whether a text may be a user id: printable ASCII, from 1 to 256 bytes.
func ValidUser(s string) bool { return s != "" && printable(s) }

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= maxUser
}

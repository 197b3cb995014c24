package access

import (
	"context"
	"slices"
	"strings"

	"kaged.dev/pkg/fault"
)

// Mode is the way in which operators are identified.
type Mode string

// The modes.
const (
	// Loopback accepts holders of the session cookie, which a launch URL sets.
	Loopback Mode = "loopback"
	// Sidecar accepts the operator that a sign-in proxy names, if the proxy sends the nonce.
	Sidecar Mode = "sidecar"
	// Insecure accepts every caller.
	Insecure Mode = "insecure"
)

// InsecureUser is the operator of a request without a user id in [Insecure] mode.
const InsecureUser = "insecure-mode"

// maxUser is the maximum length of a user id in bytes.
const maxUser = 256

// Identity is the caller of a request. It has the same shape in every mode.
type Identity struct {
	// UserID is the operator's id: printable ASCII, at most 256 bytes.
	UserID string
	// Email is shown and never checked.
	Email string
	// Groups are the groups in the sidecar's header. One of them may be the administrators' group.
	Groups []string
	// Token is the id of the request's API token and Scope its scope. Token is "" for a request without one.
	Token string
	Scope Scope
	// Admin means that the operator is an administrator of the deployment. It is false for a request with an API
	// token.
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

// Reason is the reason of a refusal. It goes to the audit log only; the answer does not contain it.
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
	// TokenOfAnother refuses a token of an operator other than the sidecar's, or other than the one of [Loopback].
	TokenOfAnother Reason = "token_of_another"
	// TooSmall refuses a token with a smaller scope than the route needs.
	TooSmall Reason = "token_scope"
)

// Gate identifies operators.
type Gate struct {
	// Mode selects the credentials that count.
	Mode Mode
	// Operator is the user id of the operator in [Loopback] mode.
	Operator string
	// Nonce is the secret that proves the sidecar. [Sidecar] mode without one refuses every request.
	Nonce string
	// Secrets returns the secret that the session cookie is derived from.
	Secrets Secrets
	// AdminGroup is the sidecar's name of the administrators' group; "" means that there are no administrators.
	AdminGroup string
	// Tokens authenticates API tokens. They count in every mode but [Insecure].
	Tokens Tokens
}

// Identify returns the caller with these credentials. It fails with fault.Unauthenticated, whose text is always the
// same, and then returns the Reason for the audit log. It fails with fault.Unavailable while the secret or the
// token cannot be checked.
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

// Configured reports whether the gate can accept any request.
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

// SignedOut calls f once the session cookie is revoked, unless stop was called before. It never calls f in other
// modes than [Loopback], where the sign-in belongs to a proxy or there is none. f must not block, and may run more
// than once.
func (g *Gate) SignedOut(ctx context.Context, session string, f func()) (stop func()) {
	if g.Mode != Loopback {
		return func() {}
	}
	stop = g.Secrets.Replaced(f)
	// The secret may have been replaced after the request was accepted.
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

// ValidUser reports whether a text can be a user id: printable ASCII, 1 to 256 bytes.
func ValidUser(s string) bool { return s != "" && printable(s) }

// printable reports whether a text can be a header value: printable ASCII of at most maxUser bytes.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= maxUser
}

package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Secrets returns the secret that cookies and CSRF tokens are derived from. It is safe for concurrent use.
type Secrets interface {
	// Current returns the secret, which may be cached. It fails with fault.Unavailable while no secret is known.
	Current(ctx context.Context) ([]byte, error)
	// Renewed returns the secret after a new query, unless the last query is too recent. It fails like Current.
	Renewed(ctx context.Context) ([]byte, error)
	// Replaced calls f once when the secret is replaced by another, unless stop was called before. f must not block,
	// and may run after stop if both happen at the same time.
	Replaced(f func()) (stop func())
}

// SessionToken returns the value of the session cookie.
func SessionToken(secret []byte) string { return mac(secret, "kaged_session") }

// CSRFToken returns the CSRF token of a user. It changes only with the secret.
func CSRFToken(secret []byte, userID string) string { return mac(secret, "kaged_csrf", userID) }

// mac returns the HMAC-SHA256 of parts. A NUL ends each part, so that different lists of parts are different
// inputs.
func mac(secret []byte, parts ...string) string {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// equal compares in constant time.
func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// matches reports whether derive returns token for the secret. After a mismatch it renews the secret and compares
// again, because the secret may have been rotated.
func matches(ctx context.Context, secrets Secrets, token string, derive func(secret []byte) string) (bool, error) {
	secret, err := secrets.Current(ctx)
	if err != nil {
		return false, err
	}
	if equal(derive(secret), token) {
		return true, nil
	}
	if secret, err = secrets.Renewed(ctx); err != nil {
		return false, err
	}
	return equal(derive(secret), token), nil
}

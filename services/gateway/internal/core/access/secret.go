package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Secrets holds the secret that cookies and CSRF tokens are derived from. Both methods are safe for concurrent use.
type Secrets interface {
	// Current returns the secret. It fails with fault.Unavailable until one is known.
	Current(ctx context.Context) ([]byte, error)
	// Renewed asks again whether the secret has changed, at most so often, and returns it.
	Renewed(ctx context.Context) ([]byte, error)
	// Replaced calls f once, when another secret takes the place of the one in use, unless stop was called before. f
	// must not block, and may run after stop if both happen at once.
	Replaced(f func()) (stop func())
}

// SessionToken returns the value of the session cookie.
func SessionToken(secret []byte) string { return mac(secret, "kaged_session") }

// CSRFToken returns the CSRF token of a user. It is stable for as long as the secret.
func CSRFToken(secret []byte, userID string) string { return mac(secret, "kaged_csrf", userID) }

// mac is HMAC-SHA256 over parts, each ended by a NUL so that no two lists of parts give the same input.
func mac(secret []byte, parts ...string) string {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// equal compares in a time that does not depend on where a and b differ.
func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// matches reports whether derive gives token under the secret. A mismatch may mean that the secret has changed, so
// it is asked for once more.
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

package access

import (
	"context"

	"kaged.dev/pkg/fault"
)

// CheckCSRF makes sure that the page a request comes from could read the operator's CSRF cookie: the token it sent must
// equal the cookie and be the user's. It fails with fault.Forbidden, details.reason csrf_mismatch, and with
// fault.Unavailable while the secret is not known.
func CheckCSRF(ctx context.Context, secrets Secrets, userID, sent, cookie string) error {
	mismatch := fault.New(fault.Forbidden, "The CSRF token is missing or wrong; send the one of GET /api/v1/me in "+
		"X-Kaged-CSRF.").
		With("reason", "csrf_mismatch")
	if sent == "" || !equal(sent, cookie) {
		return mismatch
	}
	ok, err := matches(ctx, secrets, sent, func(secret []byte) string { return CSRFToken(secret, userID) })
	if err != nil {
		return err
	}
	if !ok {
		return mismatch
	}
	return nil
}

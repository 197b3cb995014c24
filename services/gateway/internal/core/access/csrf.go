package access

import (
	"context"

	"kaged.dev/pkg/fault"
)

// CheckCSRF checks the CSRF token of a request: it must equal the CSRF cookie, which only pages of this origin can
// read, and it must belong to the user. It fails with fault.Forbidden and details.reason csrf_mismatch, or with
// fault.Unavailable while the secret is unknown.
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

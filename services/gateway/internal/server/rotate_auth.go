package server

import (
	"context"
	"net/http"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// RotateAuth revokes all cookies and returns a new launch URL. This gateway refuses the cookies at once, other
// gateways within secret_max_age. It fails with not_found in other modes than loopback.
func (c *Control) RotateAuth(
	ctx context.Context, _ *gatewayv1.RotateAuthRequest,
) (*gatewayv1.RotateAuthResponse, error) {
	if err := c.loopback(); err != nil {
		return nil, err
	}
	resp, err := c.Operators.RotateAuthEpoch(ctx, &sessionmanagerv1.RotateAuthEpochRequest{})
	if err != nil {
		return nil, err
	}
	c.Renew(resp.GetSecret())
	caller := ident.CallerFrom(ctx)
	if err := c.Audit.Record(ctx, access.Entry{
		Type: "auth.rotated", UserID: caller.UserID, RequestID: caller.RequestID,
		Payload: map[string]any{"auth_mode": string(c.Info.AuthMode)},
	}); err != nil {
		return nil, err
	}
	url, err := c.Launcher.Issue(ctx)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.RotateAuthResponse{Url: url}, nil
}

// signOutOthers answers POST /api/v1/auth/rotate: it revokes all cookies and sets new ones in the caller's browser.
// It refuses API tokens, because the new cookies would remain valid after the token is revoked.
func (s *Server) signOutOthers(w http.ResponseWriter, r *http.Request) error {
	x := exchangeOf(r)
	switch {
	case s.deps.Gate.Mode != access.Loopback:
		return fault.New(fault.NotFound, "Sign-in belongs to the proxy in %s mode; sign out there.", s.deps.Gate.Mode)
	case x.identity.Token != "":
		return fault.New(fault.Forbidden, "An API token cannot sign browsers out; use the console or `kaged auth rotate`.")
	}
	resp, err := s.operators.RotateAuthEpoch(r.Context(), &sessionmanagerv1.RotateAuthEpochRequest{})
	if err != nil {
		return err
	}
	s.deps.Renew(resp.GetSecret())
	if err := s.deps.Audit.Record(r.Context(), access.Entry{
		Type: "auth.rotated", UserID: x.identity.UserID, RequestID: x.requestID,
		Payload: map[string]any{"auth_mode": string(access.Loopback), "remote": r.RemoteAddr},
	}); err != nil {
		return err
	}
	return answer(w, http.StatusOK, &apiv1.Launched{Ok: true, CsrfToken: s.signIn(w, resp.GetSecret())})
}

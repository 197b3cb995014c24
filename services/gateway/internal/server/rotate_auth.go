package server

import (
	"context"

	"kaged.dev/pkg/ident"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// RotateAuth makes every cookie handed out before worthless, here at once and at other gateways within seconds, and
// returns a fresh launch URL. Fails with not_found in other modes than loopback.
func (c *Control) RotateAuth(ctx context.Context, _ *gatewayv1.RotateAuthRequest) (*gatewayv1.RotateAuthResponse, error) {
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

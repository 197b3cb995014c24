package server

import (
	"context"

	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

// GetInfo describes this gateway. It waits until the gateway listens.
func (c *Control) GetInfo(ctx context.Context, _ *gatewayv1.GetInfoRequest) (*gatewayv1.GetInfoResponse, error) {
	base, err := c.Listener(ctx)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.GetInfoResponse{
		BaseUrl: base, Version: c.Info.Version, AuthMode: string(c.Info.AuthMode), Warnings: c.Info.Warnings(),
	}, nil
}

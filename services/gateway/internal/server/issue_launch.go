package server

import (
	"context"

	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

// IssueLaunch returns a single-use launch URL. It waits until the gateway listens. It fails with not_found in other
// modes than loopback.
func (c *Control) IssueLaunch(
	ctx context.Context, _ *gatewayv1.IssueLaunchRequest,
) (*gatewayv1.IssueLaunchResponse, error) {
	if err := c.loopback(); err != nil {
		return nil, err
	}
	url, err := c.Launcher.Issue(ctx)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.IssueLaunchResponse{Url: url}, nil
}

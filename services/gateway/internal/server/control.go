package server

import (
	"context"

	"kaged.dev/pkg/fault"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// Control implements kaged.gateway.v1.GatewayService for the operator's command line, over the unix socket that
// only the operator can open. Every field is required.
type Control struct {
	gatewayv1.UnimplementedGatewayServiceServer

	Info      Info
	Launcher  *Launcher
	Operators sessionmanagerv1.OperatorServiceClient
	Audit     access.Audit
	// Renew replaces the cached secret.
	Renew func(secret []byte)
	// Listener returns the base URL of the listener. It waits until the gateway listens.
	Listener func(context.Context) (string, error)
}

// loopback fails with not_found in modes without launch URLs.
func (c *Control) loopback() error {
	if c.Info.AuthMode != access.Loopback {
		return fault.New(fault.NotFound, "There are no launch URLs in %s mode.", c.Info.AuthMode)
	}
	return nil
}

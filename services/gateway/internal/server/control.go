package server

import (
	"context"

	"kaged.dev/pkg/fault"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
)

// Control implements kaged.gateway.v1.GatewayService: the operator's own command line asks it over the unix socket,
// which only the operator can open. Every field is needed.
type Control struct {
	gatewayv1.UnimplementedGatewayServiceServer

	Info      Info
	Launcher  *Launcher
	Operators sessionmanagerv1.OperatorServiceClient
	Audit     access.Audit
	// Renew replaces the copy of the secret.
	Renew func(secret []byte)
	// Listener returns the base URL of the listener; it waits until there is one.
	Listener func(context.Context) (string, error)
}

// loopback refuses calls about launch URLs in modes without them.
func (c *Control) loopback() error {
	if c.Info.AuthMode != access.Loopback {
		return fault.New(fault.NotFound, "There are no launch URLs in %s mode.", c.Info.AuthMode)
	}
	return nil
}

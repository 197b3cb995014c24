// Package server answers kaged.sessionmanager.v1.OperatorService, the common state of gateways, and TokenService, the
// API tokens of operators.
package server

import (
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
	"kaged.dev/services/session-manager/internal/operators/core/rates"
	"kaged.dev/services/session-manager/internal/operators/core/tokens"
)

// Server is the gRPC service. Its handlers convert messages and call core.
type Server struct {
	sessionmanagerv1.UnimplementedOperatorServiceServer
	operator *operator.Service
	tokens   *tokens.Service
	rates    *rates.Service
}

// New returns a Server.
func New(service *operator.Service, api *tokens.Service, limits *rates.Service) *Server {
	return &Server{operator: service, tokens: api, rates: limits}
}

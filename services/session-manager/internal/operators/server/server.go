// Package server answers kaged.sessionmanager.v1.OperatorService: what gateways share.
package server

import (
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
)

// Server is the gRPC service. Handlers translate and delegate.
type Server struct {
	sessionmanagerv1.UnimplementedOperatorServiceServer
	operator *operator.Service
}

// New returns a Server.
func New(service *operator.Service) *Server { return &Server{operator: service} }

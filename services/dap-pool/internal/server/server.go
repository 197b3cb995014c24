// Package server is the gRPC server of dap-pool. It converts messages to the types of core and back. Each RPC has a
// file; only convert.go and answer.go use both kinds of types.
package server

import (
	"kaged.dev/services/dap-pool/internal/core"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Server serves DAPPoolService.
type Server struct {
	dappoolv1.UnimplementedDAPPoolServiceServer
	pool *core.Pool
}

// New returns a server of pool.
func New(pool *core.Pool) *Server { return &Server{pool: pool} }

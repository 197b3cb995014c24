// Package server is dap-pool's gRPC side: messages in, core's types out, and back. One file per RPC; convert.go
// and answer.go hold the only code that knows both sides.
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

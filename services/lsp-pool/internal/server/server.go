// Package server is lsp-pool's gRPC side: messages in, core's types out, and back. One file per RPC; convert.go holds
// the only code that knows both sides.
package server

import (
	"kaged.dev/services/lsp-pool/internal/core"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// Server serves LSPPoolService.
type Server struct {
	lsppoolv1.UnimplementedLSPPoolServiceServer
	pool *core.Pool
}

// New returns a server of pool.
func New(pool *core.Pool) *Server { return &Server{pool: pool} }

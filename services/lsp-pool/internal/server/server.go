// Package server is the gRPC server of lsp-pool. It converts messages to the types of core and back. Each RPC has a
// file; only convert.go uses both kinds of types.
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

package server

import (
	"google.golang.org/grpc"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// HoldServers holds the servers until the stream ends.
func (s *Server) HoldServers(
	_ *lsppoolv1.HoldServersRequest, stream grpc.ServerStreamingServer[lsppoolv1.HoldServersEvent],
) error {
	return s.pool.Hold(stream.Context(), func() error { return stream.Send(&lsppoolv1.HoldServersEvent{}) })
}

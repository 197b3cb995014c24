package server

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/dap-pool/internal/core"

	dappoolv1 "kaged.dev/proto/gen/kaged/dappool/v1"
)

// Watch streams the events of a run's debug sessions.
func (s *Server) Watch(req *dappoolv1.WatchRequest, stream grpc.ServerStreamingServer[dappoolv1.WatchEvent]) error {
	if req.GetSessionId() == "" || req.GetRunId() == "" {
		return fault.New(fault.BadRequest, "A watcher names a session_id and a run_id.")
	}
	return s.pool.Watch(stream.Context(), req.GetSessionId(), req.GetRunId(), func(e core.Event) error {
		return stream.Send(&dappoolv1.WatchEvent{Event: e.Proto(), Root: e.Root})
	})
}

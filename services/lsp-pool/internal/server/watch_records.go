package server

import (
	"google.golang.org/grpc"

	"kaged.dev/pkg/late"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// WatchRecords sends a watcher the records that no answer has returned.
func (s *Server) WatchRecords(
	stream grpc.BidiStreamingServer[lsppoolv1.WatchRecordsRequest, lsppoolv1.WatchRecordsEvent],
) error {
	ctx, cancel := late.Acknowledge(stream.Context(), func() (string, error) {
		req, err := stream.Recv()
		return req.GetAcknowledged(), err
	}, s.pool.Told)
	defer cancel()
	return s.pool.WatchRecords(ctx, func(r late.Record) error {
		return stream.Send(&lsppoolv1.WatchRecordsEvent{
			Id: r.ID, SessionId: r.Session, ProjectId: r.Project, Record: r.Record.Proto(),
		})
	})
}

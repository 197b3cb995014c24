package server

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract/sandboxwire"
	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// connectPiece is the maximum size of one event in bytes.
const connectPiece = 32 << 10

// Connect joins the stream to a port of a loopback. A second goroutine relays the caller's bytes and ends with the
// stream. When one side ends, the connection ends.
func (s *Server) Connect(
	stream grpc.BidiStreamingServer[sandboxsupervisorv1.ConnectRequest, sandboxsupervisorv1.ConnectEvent],
) error {
	first, err := stream.Recv()
	if err != nil || first.GetStart() == nil {
		return fault.New(fault.BadRequest, "The stream has not named a port first.")
	}
	start := first.GetStart()
	conn, err := s.supervisor.Connect(stream.Context(), core.Port{
		Owner: sandboxwire.FromOwner(start.GetOwner()), CageID: start.GetCageId(), Number: int(start.GetPort()),
	})
	if err != nil {
		return err
	}
	closed := sync.OnceFunc(func() { conn.Close() })
	defer context.AfterFunc(stream.Context(), closed)()
	go func() {
		defer closed()
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			if _, err := conn.Write(request.GetData()); err != nil {
				return
			}
		}
	}()
	event := &sandboxsupervisorv1.ConnectEvent{
		Event: &sandboxsupervisorv1.ConnectEvent_Connected{Connected: &sandboxsupervisorv1.Connected{}},
	}
	buffer := make([]byte, connectPiece)
	for {
		if err := stream.Send(event); err != nil {
			return err
		}
		n, err := conn.Read(buffer)
		if n == 0 && err != nil {
			if cause := stream.Context().Err(); cause != nil && !errors.Is(err, io.EOF) {
				return fault.From(cause)
			}
			return nil // the far side or the caller has ended
		}
		event.Event = &sandboxsupervisorv1.ConnectEvent_Data{Data: buffer[:n]}
	}
}

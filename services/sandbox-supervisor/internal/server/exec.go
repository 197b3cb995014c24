package server

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

type execStream = grpc.BidiStreamingServer[sandboxsupervisorv1.ExecRequest, sandboxsupervisorv1.ExecEvent]

// Exec runs one command. A second goroutine receives the caller's requests and ends with the stream.
func (s *Server) Exec(stream execStream) error {
	first, err := stream.Recv()
	if err != nil {
		return fault.New(fault.BadRequest, "The stream ended before it named a command.")
	}
	command, err := commandFromProto(first)
	if err != nil {
		return err
	}
	// The end of the stream and an invalid request cancel ctx, which ends the command.
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	exec, err := s.supervisor.Start(ctx, command)
	if err != nil {
		return err
	}
	started := startedToProto(exec)
	if first.GetStart().GetShare() {
		started.Ticket, started.Socket = exec.Share(), s.socket
	}
	events := &sender{stream: stream}
	if err := events.Send(&sandboxsupervisorv1.ExecEvent{
		Event: &sandboxsupervisorv1.ExecEvent_Started{Started: started},
	}); err != nil {
		cancel(err)
	}
	go func() {
		if err := take(stream, exec); err != nil {
			cancel(err)
		}
	}()
	exec.Refused(func(a contract.Attempt) error { return events.Send(refusedToProto(a)) })
	exec.Copy(func(from core.Stream, data []byte) error { return events.Send(outputToProto(from, data)) })
	defer exec.Close()
	exit := exec.Wait()
	if refused := (*fault.Error)(nil); errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	if err := stream.Context().Err(); err != nil {
		return fault.From(err)
	}
	return stream.Send(exitedToProto(exit, exec.Found()))
}

// sender serialises events from several goroutines.
type sender struct {
	mu     sync.Mutex
	stream execStream
}

// Send sends one event.
func (s *sender) Send(event *sandboxsupervisorv1.ExecEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(event)
}

// take passes the caller's requests to the command until the caller has no more, which ends the standard input. It
// fails for an invalid request.
func take(stream execStream, exec *core.Exec) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			exec.CloseInput()
			return nil
		}
		if err != nil {
			return nil // the stream is over, and so is its context
		}
		switch r := request.GetRequest().(type) {
		case *sandboxsupervisorv1.ExecRequest_Stdin:
			exec.Write(r.Stdin)
		case *sandboxsupervisorv1.ExecRequest_CloseStdin:
			exec.CloseInput()
		case *sandboxsupervisorv1.ExecRequest_Resize:
			if err := exec.Resize(sizeFromProto(r.Resize.GetTerminal())); err != nil {
				return err
			}
		case *sandboxsupervisorv1.ExecRequest_Signal:
			if err := exec.Signal(r.Signal.GetName()); err != nil {
				return err
			}
		case *sandboxsupervisorv1.ExecRequest_Unshare:
			exec.Unshare()
		case *sandboxsupervisorv1.ExecRequest_Start:
			return fault.New(fault.BadRequest, "A stream runs one command; this one was started already.")
		default:
			return fault.New(fault.BadRequest, "A request on the stream asks for nothing.")
		}
	}
}

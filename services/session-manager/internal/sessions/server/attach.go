package server

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/sessions"
)

// AttachServer is the gRPC service AttachService. Sockets hold sessions through it.
type AttachServer struct {
	sessionmanagerv1.UnimplementedAttachServiceServer
	sessions *sessions.Service
	// patience bounds the wait for the ends of a session's channels.
	patience time.Duration
}

// NewAttach returns an AttachServer.
func NewAttach(s *sessions.Service, patience time.Duration) *AttachServer {
	return &AttachServer{sessions: s, patience: patience}
}

// Attach holds a session for a socket until the stream ends. It runs in this goroutine alone.
func (s *AttachServer) Attach(
	req *sessionmanagerv1.AttachRequest, stream grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent],
) error {
	ctx := stream.Context()
	hold, err := s.sessions.Attach(ctx, req.GetSessionId(), req.GetTakeover())
	if err != nil {
		return err
	}
	defer hold.Detach()
	seq, err := s.seq(ctx, hold)
	if err != nil {
		return err
	}
	attached := &sessionmanagerv1.Attached{ServerSeq: map[string]int64{}}
	for c := range frames.Channels {
		attached.ServerSeq[c.String()] = seq[c]
	}
	if err := stream.Send(&sessionmanagerv1.AttachEvent{
		Event: &sessionmanagerv1.AttachEvent_Attached{Attached: attached},
	}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hold.Wanted():
			wanted := &sessionmanagerv1.AttachEvent_Wanted{Wanted: &sessionmanagerv1.AttachWanted{}}
			if err := stream.Send(&sessionmanagerv1.AttachEvent{Event: wanted}); err != nil {
				return err
			}
		case why := <-hold.Ended():
			ended := &sessionmanagerv1.AttachEnded{Code: why.Code, Reason: why.Reason}
			return stream.Send(&sessionmanagerv1.AttachEvent{Event: &sessionmanagerv1.AttachEvent_Ended{Ended: ended}})
		}
	}
}

// seq returns the last published number of each channel, once it is known.
func (s *AttachServer) seq(ctx context.Context, hold *sessions.Hold) ([frames.Channels]int64, error) {
	bounded, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	seq, err := hold.Seq(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = fault.Wrap(err, fault.Unavailable, "The session's frames cannot be reached now; connect again shortly.").
			With("subsystem", "bus")
	}
	return seq, err
}

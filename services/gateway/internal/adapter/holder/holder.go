// Package holder holds sessions at the session-manager process that has their lease.
package holder

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/adapter/holderconn"
	"kaged.dev/services/gateway/internal/core/channel"
)

// Holder holds sessions for sockets. It is safe for concurrent use.
type Holder struct{ conn *holderconn.Conn }

// New returns a Holder that calls session-manager over conn.
func New(conn *holderconn.Conn) *Holder { return &Holder{conn} }

// Attach implements socket.Deps.Attach. It returns once the session is held; the hold lasts until ctx ends.
func (h *Holder) Attach(ctx context.Context, session string, takeover bool) (channel.Hold, error) {
	var got *hold
	err := h.conn.Follow(func(conn grpc.ClientConnInterface) (err error) {
		got, err = attach(ctx, conn, &sessionmanagerv1.AttachRequest{SessionId: session, Takeover: takeover})
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func attach(ctx context.Context, conn grpc.ClientConnInterface, req *sessionmanagerv1.AttachRequest) (*hold, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := sessionmanagerv1.NewAttachServiceClient(conn).Attach(ctx, req)
	if err != nil {
		cancel()
		return nil, err
	}
	event, err := stream.Recv()
	switch {
	case err == nil && event.GetAttached() != nil:
		return &hold{stream, cancel, event.GetAttached().GetServerSeq()}, nil
	case err == nil && event.GetEnded() != nil:
		err = fault.New(fault.Unavailable, "The session's holder is stopping; try again shortly.").
			With("subsystem", "session-manager")
	case err == nil, errors.Is(err, io.EOF):
		err = fault.New(fault.Internal, "The session's holder did not confirm that the session is held.")
	}
	cancel()
	return nil, err
}

// hold is an Attach stream after its first event.
type hold struct {
	stream grpc.ServerStreamingClient[sessionmanagerv1.AttachEvent]
	cancel context.CancelFunc
	seq    map[string]int64
}

// ServerSeq implements channel.Hold.
func (h *hold) ServerSeq() map[string]int64 { return h.seq }

// Wait implements channel.Hold. It closes the stream at the end.
func (h *hold) Wait(wanted func()) (channel.Ended, error) {
	defer h.cancel()
	for {
		event, err := h.stream.Recv()
		if err != nil {
			return channel.Ended{}, err
		}
		if event.GetWanted() != nil {
			wanted()
		}
		if ended := event.GetEnded(); ended != nil {
			return channel.Ended{Code: ended.GetCode(), Reason: ended.GetReason()}, nil
		}
	}
}

package rpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
)

// The log gets defects and causes that the caller does not get. An expected end, such as a cancelled stream, is not a
// defect.
func TestDefectsAreLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		code   codes.Code
		logged bool
	}{
		"success":            {nil, codes.OK, false},
		"a refusal":          {fault.New(fault.NotFound, "There is none."), codes.NotFound, false},
		"a cancelled stream": {status.FromContextError(context.Canceled).Err(), codes.Canceled, false},
		"a context":          {context.DeadlineExceeded, codes.DeadlineExceeded, false},
		"a defect":           {errors.New("index out of range"), codes.Internal, true},
		"a wrapped cause":    {fault.Wrap(errors.New("disk"), fault.Internal, "Something."), codes.Internal, true},
		"a foreign status":   {status.Error(codes.Internal, "frame too large"), codes.Internal, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			side := serverSide{slog.New(slog.NewTextHandler(&log, nil))}
			_, err := side.unary(
				t.Context(),
				nil,
				&grpc.UnaryServerInfo{FullMethod: "/x/Y"},
				func(context.Context, any) (any, error) { return nil, c.err },
			)
			if status.Code(err) != c.code || (log.Len() > 0) != c.logged {
				t.Errorf("answered %v, logged %q", err, log.String())
			}
		})
	}
}

// A call cut off by a closed connection is unavailable; a call cancelled by its caller or the server is cancelled.
func TestClosedConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	closed := status.Error(codes.Canceled, "grpc: the client connection is closing")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want fault.Code
	}{
		"closed":                  {t.Context(), closed, fault.Unavailable},
		"cancelled by the caller": {gone, closed, fault.Cancelled},
		"cancelled by the server": {
			t.Context(), ToStatus(fault.New(fault.Cancelled, "The operator cancelled it.")), fault.Cancelled,
		},
		"a refusal of the service": {t.Context(), ToStatus(fault.New(fault.Conflict, "It is held.")), fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unary := clientUnary(
				c.ctx,
				"/x/Y",
				nil,
				nil,
				nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return c.err },
			)
			_, open := clientStream(
				c.ctx,
				nil,
				nil,
				"/x/Y",
				func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
					return nil, c.err
				},
			)
			stream := &faultStream{ctx: c.ctx, ClientStream: failing{err: c.err}}
			_, header := stream.Header()
			for what, err := range map[string]error{
				"call": unary, "open": open, "receive": stream.RecvMsg(nil), "send": stream.SendMsg(nil),
				"close": stream.CloseSend(), "header": header,
			} {
				if got := fault.From(err).Code; got != c.want {
					t.Errorf("got %v from %s, want %v", err, what, c.want)
				}
			}
		})
	}
}

// failing is a stream whose methods all fail.
type failing struct {
	grpc.ClientStream
	err error
}

func (f failing) RecvMsg(any) error            { return f.err }
func (f failing) SendMsg(any) error            { return f.err }
func (f failing) CloseSend() error             { return f.err }
func (f failing) Header() (metadata.MD, error) { return nil, f.err }

package host

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// each is a call by [rpc.Each]: the caller's RecvMsg runs the handler, and each message that the handler sends goes to
// receive. Its methods are the caller's side of the stream.
type each struct {
	*transport
	direct  *direct
	ctx     context.Context
	opts    []grpc.CallOption
	request any
	receive func(any)
}

func (e *each) Context() context.Context     { return e.ctx }
func (e *each) Header() (metadata.MD, error) { return e.transport.Header(), nil }
func (e *each) CloseSend() error             { return nil }

func (e *each) SendMsg(m any) error {
	e.request = m
	return nil
}

// RecvMsg makes the call and returns its error, or io.EOF: all messages have gone to receive.
func (e *each) RecvMsg(any) error {
	c, err := e.direct.enter(e.ctx, e.transport.method)
	if err != nil {
		return err
	}
	defer c.left()
	defer c.cancel()
	ctx, cancel := c.served(e.transport)
	defer cancel()
	info := &grpc.StreamServerInfo{FullMethod: c.name, IsServerStream: true}
	err = e.direct.stream(c.method.service, &eachServed{e.transport, e, ctx}, info, c.method.stream.Handler)
	e.transport.tell(e.opts)
	if err != nil {
		return e.direct.answer(err)
	}
	return io.EOF
}

// eachServed is the service's side of the stream.
type eachServed struct {
	*transport
	each *each
	ctx  context.Context
}

func (s *eachServed) Context() context.Context  { return s.ctx }
func (s *eachServed) SetTrailer(md metadata.MD) { _ = s.transport.SetTrailer(md) } // it never fails

// RecvMsg receives the request. The handler of a method with one request receives once.
func (s *eachServed) RecvMsg(m any) error { return copyMessage(m, s.each.request) }

// SendMsg passes a message to the caller. It fails when the caller has gone.
func (s *eachServed) SendMsg(m any) error {
	if err := fits(m.(proto.Message)); err != nil {
		return err
	}
	if err := s.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	s.each.receive(m)
	return nil
}

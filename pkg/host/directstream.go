package host

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/rpc"
)

// NewStream opens a stream. It lasts as long as its context or its handler: a held cage depends on that.
func (d *direct) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, name string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if receive := rpc.Receiver(opts); receive != nil {
		return &each{transport: &transport{method: name}, direct: d, ctx: ctx, opts: opts, receive: receive}, nil
	}
	c, err := d.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &stream{
		call: c, transport: transport{method: name}, opts: opts, single: !desc.ServerStreams, answering: clone,
		requests: make(chan sent, 1), responses: make(chan sent, 1), closed: make(chan struct{}), ended: make(chan struct{}),
		headed: make(chan struct{}),
	}
	if rpc.IsReadOnly(opts) {
		s.answering = lend
	}
	served, cancel := c.served(&s.transport)
	go func() {
		defer c.left()
		defer cancel()
		grow()
		info := &grpc.StreamServerInfo{
			FullMethod: name, IsClientStream: c.method.stream.ClientStreams, IsServerStream: c.method.stream.ServerStreams,
		}
		s.err = d.stream(c.method.service, &serverSide{s, served}, info, c.method.stream.Handler)
		s.head()
		close(s.ended)
	}()
	return &clientSide{s}, nil
}

// stream is a running stream. Each direction holds one message.
type stream struct {
	*call
	transport transport
	opts      []grpc.CallOption
	single    bool                    // the service sends one message
	answering func(any) (sent, error) // makes what the caller receives of a message of the service

	requests, responses chan sent
	closed              chan struct{} // closed when the caller sends no more
	closing             sync.Once
	headed              chan struct{} // closed when the header is complete
	heading             sync.Once
	ended               chan struct{} // closed when the handler has ended
	err                 error         // the handler's; read after ended
}

func (s *stream) head() { s.heading.Do(func() { close(s.headed) }) }

// clientSide is the caller's side of a stream.
type clientSide struct{ *stream }

func (s *clientSide) Context() context.Context { return s.ctx }

// Header returns the service's header once the service has sent it, or a message, or has ended.
func (s *clientSide) Header() (metadata.MD, error) {
	select {
	case <-s.headed:
	case <-s.ctx.Done():
		return nil, s.direct.answer(status.FromContextError(s.ctx.Err()).Err())
	}
	return s.transport.Header(), nil
}

func (s *clientSide) Trailer() metadata.MD { return s.transport.Trailer() }

func (s *clientSide) CloseSend() error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}

// SendMsg sends a message. It fails with io.EOF if the service has ended the stream; RecvMsg then returns the reason.
func (s *clientSide) SendMsg(m any) error {
	message, err := clone(m)
	if err != nil {
		return err
	}
	select {
	case <-s.ended:
		return io.EOF
	case <-s.closed:
		return status.Error(codes.Internal, "a message follows the last one")
	default:
	}
	select {
	case s.requests <- message:
		return nil
	case <-s.ended:
		return io.EOF
	case <-s.ctx.Done():
		return s.direct.answer(status.FromContextError(s.ctx.Err()).Err())
	}
}

// RecvMsg receives a message. The error that ends the stream releases its resources.
func (s *clientSide) RecvMsg(m any) error {
	err := s.receive(m)
	if err == nil && s.single {
		// The call has its status only at its end, which follows.
		select {
		case <-s.ended:
			err = s.err
		case <-s.ctx.Done():
			err = status.FromContextError(s.ctx.Err()).Err()
		}
		s.over()
		return s.direct.answer(err)
	}
	if err != nil {
		s.over()
	}
	return s.direct.answer(err)
}

func (s *clientSide) receive(m any) error {
	if err := s.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	select {
	case message := <-s.responses:
		return message.moveTo(m)
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	case <-s.ended:
	}
	select {
	case message := <-s.responses: // it was sent before the end
		return message.moveTo(m)
	default:
	}
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

// over ends the stream for its caller.
func (s *clientSide) over() {
	s.cancel()
	s.transport.tell(s.opts)
}

// serverSide is the service's side of a stream.
type serverSide struct {
	*stream
	served context.Context
}

func (s *serverSide) Context() context.Context { return s.served }

func (s *serverSide) SetHeader(md metadata.MD) error { return s.transport.SetHeader(md) }

func (s *serverSide) SendHeader(md metadata.MD) error {
	defer s.head()
	return s.transport.SetHeader(md)
}

func (s *serverSide) SetTrailer(md metadata.MD) { _ = s.transport.SetTrailer(md) } // it never fails

// SendMsg sends a message. It fails when the caller has gone.
func (s *serverSide) SendMsg(m any) error {
	message, err := s.answering(m)
	if err != nil {
		return err
	}
	s.head()
	if err := s.served.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	select {
	case s.responses <- message:
		return nil
	case <-s.served.Done():
		return status.FromContextError(s.served.Err()).Err()
	}
}

// RecvMsg receives a message, or io.EOF after the last one.
func (s *serverSide) RecvMsg(m any) error {
	if err := s.served.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	select {
	case message := <-s.requests:
		return message.moveTo(m)
	case <-s.served.Done():
		return status.FromContextError(s.served.Err()).Err()
	case <-s.closed:
	}
	select {
	case message := <-s.requests: // it was sent before the end
		return message.moveTo(m)
	default:
		return io.EOF
	}
}

package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"

	"github.com/fullstorydev/grpchan"
	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/rpc"
)

// direct is a connection to a service of this process without a transport: a message is cloned and passed to the other
// goroutine.
//
// HTTP/2 over bufconn wakes four goroutines for each message, frames it and marshals it: about a fifth of the CPU of a
// hundred streams with a hundred deltas a second. Of a model's turn of 12 MB it makes four copies; a clone shares every
// string.
//
// A caller sees no difference to a transport: the interceptors of both sides run, metadata, deadlines and cancellation
// pass, a message over [rpc.MaxMessage] is refused, a receiver that does not read blocks the sender, and calls fail
// with unavailable before the service has started and after it has stopped. There are no stats handlers, so a host with
// tracing does not use it.
//
// Each call has one goroutine, which runs the handler; stop waits for it.
type direct struct {
	name    string
	channel inprocgrpc.Channel
	client  grpc.ClientConnInterface // the channel with the client's interceptors
	ctx     context.Context          // its end cancels every call
	cut     context.CancelFunc

	mu      sync.Mutex // guards the fields below
	open    bool
	methods map[string]bool // served methods by full name; set by start
	calls   int
	idle    chan struct{} // closed when calls is 0 and open is false
}

func newDirect(name string, log *slog.Logger) *direct {
	d := &direct{name: name, idle: make(chan struct{})}
	d.ctx, d.cut = context.WithCancel(context.Background())
	unary, stream := rpc.ServerInterceptors(log)
	d.channel.WithCloner(cloner{})
	d.channel.WithServerUnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			defer callOf(ctx).left()
			ctx, cancel := context.WithCancel(served{ctx})
			defer cancel()
			return unary(ctx, req, info, next)
		})
	d.channel.WithServerStreamInterceptor(
		func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			defer callOf(ss.Context()).left()
			return stream(srv, servedStream{ss}, info, next)
		})
	clientUnary, clientStream := rpc.ClientInterceptors()
	d.client = grpchan.InterceptClientConn(d, clientUnary, clientStream)
	return d
}

// start accepts calls. The served methods were registered with the channel before.
func (d *direct) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open, d.methods = true, map[string]bool{}
	for service, info := range d.channel.GetServiceInfo() {
		for _, m := range info.Methods {
			d.methods["/"+service+"/"+m.Name] = true
		}
	}
}

// stop refuses further calls and waits for the handlers of running calls. When force ends they are cancelled.
func (d *direct) stop(force context.Context) {
	d.mu.Lock()
	if d.open && d.calls == 0 {
		close(d.idle)
	}
	started := d.open
	d.open = false
	d.mu.Unlock()
	defer d.cut()
	if started {
		defer context.AfterFunc(force, d.cut)()
		<-d.idle
	}
}

// call is one running call.
type call struct {
	direct *direct
	cancel context.CancelFunc // ends the call for both sides
	ended  func() bool        // removes it from the calls that stop cancels
}

type callKey struct{}

// callOf returns the call of a handler's context.
func callOf(ctx context.Context) *call {
	return inprocgrpc.ClientContext(ctx).Value(callKey{}).(*call)
}

// enter counts a call; left uncounts it when its handler has ended. A method that is not served has no handler.
func (d *direct) enter(ctx context.Context, method string) (context.Context, *call, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.open:
		return nil, nil, d.gone()
	case !d.methods[method]:
		return nil, nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	d.calls++
	c := &call{direct: d}
	ctx, c.cancel = context.WithCancel(context.WithValue(ctx, callKey{}, c))
	c.ended = context.AfterFunc(d.ctx, c.cancel)
	return ctx, c, nil
}

func (c *call) left() {
	c.ended()
	d := c.direct
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls--; d.calls == 0 && !d.open {
		close(d.idle)
	}
}

// gone is the error for a stopped service.
func (d *direct) gone() error {
	return status.Errorf(codes.Unavailable, "the service %s does not run", d.name)
}

// answer returns the error of a call. A call cut off by the end of the service gets the error of a stopped service.
func (d *direct) answer(err error) error {
	if err != nil && d.ctx.Err() != nil && status.Code(err) == codes.Canceled {
		return d.gone()
	}
	return err
}

// Invoke makes a unary call.
func (d *direct) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx, c, err := d.enter(ctx, method)
	if err != nil {
		return err
	}
	defer c.cancel()
	return d.answer(d.channel.Invoke(ctx, method, args, reply, opts...))
}

// NewStream opens a stream.
func (d *direct) NewStream(
	ctx context.Context,
	desc *grpc.StreamDesc,
	method string,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, c, err := d.enter(ctx, method)
	if err != nil {
		return nil, err
	}
	stream, err := d.channel.NewStream(ctx, desc, method, opts...)
	if err != nil {
		c.cancel()
		c.left()
		return nil, err
	}
	// The channel cancels a stream once the client drops its last reference. With a transport the stream lasts as long as
	// its context, and a held cage depends on that.
	context.AfterFunc(ctx, func() { runtime.KeepAlive(stream) })
	return &directStream{stream, c}, nil
}

// directStream is the client's side of a stream.
type directStream struct {
	grpc.ClientStream
	call *call
}

func (s *directStream) SendMsg(m any) error { return s.call.direct.answer(s.ClientStream.SendMsg(m)) }

// RecvMsg receives a message. The error that ends the stream releases its resources.
func (s *directStream) RecvMsg(m any) error {
	err := s.call.direct.answer(s.ClientStream.RecvMsg(m))
	if err != nil {
		s.call.cancel()
	}
	return err
}

// servedStream is the service's side of a stream.
type servedStream struct{ grpc.ServerStream }

// SendMsg sends a message. If the caller has gone it fails as with a transport, although the channel returns io.EOF.
func (s servedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if errors.Is(err, io.EOF) && s.Context().Err() != nil {
		return status.FromContextError(s.Context().Err()).Err()
	}
	return err
}

// served is the context of a handler of a unary call. The channel's own one hides that it is cancelled with the
// client's, so that each context made of it would have a goroutine that waits for the cancellation.
type served struct{ context.Context }

// AfterFunc is looked for by package context.
func (s served) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(inprocgrpc.ClientContext(s), f)
}

// cloner copies messages between the two sides, because each side owns its messages. A message of a stream is copied
// when it is sent and then moved to the receiver; those of a unary call are copied when they are received.
type cloner struct{}

// sent is a copy that belongs to no side yet.
type sent struct{ message proto.Message }

// Clone returns a copy of a message to send, as [sent].
func (cloner) Clone(in any) (any, error) {
	m := in.(proto.Message)
	if err := fits(m); err != nil {
		return nil, err
	}
	return sent{proto.Clone(m)}, nil
}

// Copy sets out to in if that is [sent], and otherwise to a copy of it.
func (cloner) Copy(out, in any) error {
	to := out.(proto.Message)
	proto.Reset(to)
	if s, ok := in.(sent); ok && to.ProtoReflect().Type() == s.message.ProtoReflect().Type() {
		move(to.ProtoReflect(), s.message.ProtoReflect())
		return nil
	} else if ok {
		in = s.message
	}
	from := in.(proto.Message)
	if err := fits(from); err != nil {
		return err
	}
	proto.Merge(to, from)
	return nil
}

// move sets the fields of an empty message to those of another message of its type, which is not used afterwards.
func move(to, from protoreflect.Message) {
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(from.GetUnknown())
}

func fits(m proto.Message) error {
	if size := proto.Size(m); size > rpc.MaxMessage {
		return status.Errorf(codes.ResourceExhausted, "a message has %d bytes, the most is %d", size, rpc.MaxMessage)
	}
	return nil
}

// both registers services with two registrars.
type both struct{ first, second grpc.ServiceRegistrar }

// RegisterService implements grpc.ServiceRegistrar.
func (b both) RegisterService(desc *grpc.ServiceDesc, service any) {
	b.first.RegisterService(desc, service)
	b.second.RegisterService(desc, service)
}

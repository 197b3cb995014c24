package host

import (
	"context"
	"log/slog"
	"sync"

	"github.com/fullstorydev/grpchan"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/rpc"
)

// direct is a connection to a service of this process without a transport: a message is cloned and passed to the
// handler.
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
// Each call has one goroutine, which runs the handler; stop waits for it. A unary call with [rpc.InPlace] and a call by
// [rpc.Each] run on the caller's goroutine; the messages of the latter are not cloned.
type direct struct {
	name   string
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
	client grpc.ClientConnInterface // this connection with the client's interceptors

	mu      sync.Mutex // guards the fields below
	methods map[string]method
	open    bool
	forced  bool // running calls were cancelled by stop
	calls   map[*call]struct{}
	idle    chan struct{} // closed when there are no calls and open is false
}

// method is a method with the service that serves it. One of the descriptions is set.
type method struct {
	service any
	unary   *grpc.MethodDesc
	stream  *grpc.StreamDesc
}

func newDirect(name string, log *slog.Logger) *direct {
	d := &direct{
		name: name, methods: map[string]method{}, calls: map[*call]struct{}{}, idle: make(chan struct{}),
	}
	d.unary, d.stream = rpc.ServerInterceptors(log)
	unary, stream := rpc.ClientInterceptors()
	d.client = grpchan.InterceptClientConn(d, unary, stream)
	return d
}

// RegisterService implements grpc.ServiceRegistrar.
func (d *direct) RegisterService(desc *grpc.ServiceDesc, service any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range desc.Methods {
		d.methods["/"+desc.ServiceName+"/"+desc.Methods[i].MethodName] = method{service: service, unary: &desc.Methods[i]}
	}
	for i := range desc.Streams {
		d.methods["/"+desc.ServiceName+"/"+desc.Streams[i].StreamName] = method{service: service, stream: &desc.Streams[i]}
	}
}

// start accepts calls. The services were registered before.
func (d *direct) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = true
}

// stop refuses further calls and waits for the handlers of running calls. When force ends they are cancelled.
func (d *direct) stop(force context.Context) {
	d.mu.Lock()
	started := d.open
	d.open = false
	if started && len(d.calls) == 0 {
		close(d.idle)
	}
	d.mu.Unlock()
	if started {
		defer context.AfterFunc(force, d.cut)()
		<-d.idle
	}
}

// cut cancels the running calls.
func (d *direct) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forced = true
	for c := range d.calls {
		c.cancel()
	}
}

// call is one running call.
type call struct {
	direct *direct
	method method
	name   string             // of the method, in full
	ctx    context.Context    // the caller's
	cancel context.CancelFunc // ends the call for both sides
}

// enter begins a call. It is left when its handler has ended.
func (d *direct) enter(ctx context.Context, name string) (*call, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, known := d.methods[name]
	switch {
	case !d.open:
		return nil, d.gone()
	case !known:
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", name)
	}
	c := &call{direct: d, method: m, name: name}
	c.ctx, c.cancel = context.WithCancel(ctx)
	d.calls[c] = struct{}{}
	return c, nil
}

func (c *call) left() {
	d := c.direct
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.calls, c); len(d.calls) == 0 && !d.open {
		close(d.idle)
	}
}

// served returns the context of the call's handler. It ends with the caller's, and has the caller's metadata and
// deadline, but none of its values.
func (c *call) served(transport grpc.ServerTransportStream) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(endOf{c.ctx})
	if md, ok := metadata.FromOutgoingContext(c.ctx); ok {
		return metadata.NewIncomingContext(grpc.NewContextWithServerTransportStream(ctx, transport), md), cancel
	}
	return grpc.NewContextWithServerTransportStream(ctx, transport), cancel
}

// endOf is a context without its values.
type endOf struct{ context.Context }

func (endOf) Value(any) any { return nil }

// AfterFunc is looked for by package context, which otherwise starts a goroutine for each context that is made of this
// one.
func (e endOf) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(e.Context, f) }

// handlerStack is the size of the stack that most handlers need, in bytes.
const handlerStack = 28 << 10

// grow gives the goroutine of a handler its stack at once. It would otherwise double several times, and each time all
// frames are copied: 8 % of the CPU of a tool call.
//
//go:noinline
func grow() byte {
	var room [handlerStack]byte
	return room[handlerSlot]
}

// handlerSlot keeps the compiler from removing the array.
var handlerSlot = handlerStack - 1

// gone is the error for a stopped service.
func (d *direct) gone() error {
	return status.Errorf(codes.Unavailable, "the service %s does not run", d.name)
}

// answer returns the status of a call for its caller. A call cut off by the end of the service gets the error of a
// stopped service.
func (d *direct) answer(err error) error {
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.Canceled {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.forced {
			return d.gone()
		}
	}
	return err
}

// both registers services with two registrars.
type both struct{ first, second grpc.ServiceRegistrar }

// RegisterService implements grpc.ServiceRegistrar.
func (b both) RegisterService(desc *grpc.ServiceDesc, service any) {
	b.first.RegisterService(desc, service)
	b.second.RegisterService(desc, service)
}

// transport has the header and the trailer that a handler sets, and is its grpc.ServerTransportStream.
type transport struct {
	method string

	mu              sync.Mutex // guards the fields below
	header, trailer metadata.MD
}

func (t *transport) Method() string { return t.method }

func (t *transport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.header = metadata.Join(t.header, md)
	return nil
}

func (t *transport) SendHeader(md metadata.MD) error { return t.SetHeader(md) }

func (t *transport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}

// Header returns the header, and Trailer the trailer, as far as the handler has set them.
func (t *transport) Header() metadata.MD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header
}

func (t *transport) Trailer() metadata.MD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trailer
}

// tell sets the options of the caller that receive the header and the trailer.
func (t *transport) tell(opts []grpc.CallOption) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = t.Header()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = t.Trailer()
		}
	}
}

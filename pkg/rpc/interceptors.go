package rpc

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// MaxMessage is the maximum size of a gRPC message in bytes, in either direction. History is sent in chunks and each
// tool result in its own message, but a model's turn is one message, so this limits a turn; longer answers of the API
// are shortened to fit.
const MaxMessage = 16 << 20

// reconnect are the pauses before reconnecting. A call is refused during a pause, so the longest one is the time for
// which a service seems unreachable after its return.
var reconnect = backoff.Config{
	BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond,
}

// The metadata keys of a caller.
const (
	keyUser    = "kaged-user-id"
	keyEmail   = "kaged-user-email"
	keyRequest = "kaged-request-id"
	keyMode    = "kaged-auth-mode"
	keyAgent   = "kaged-agent-path"
	keyRole    = "kaged-role"
)

// ServerOptions returns the options of every server.
func ServerOptions(log *slog.Logger) []grpc.ServerOption {
	s := serverSide{log}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		// Small buffers keep the cost of an idle stream low, such as that of an attached socket.
		grpc.ReadBufferSize(8 << 10),
		grpc.WriteBufferSize(8 << 10),
	}
}

// window is the size in bytes of the windows for unread data on connections inside one host: of a stream, and of the
// data that the transport itself has not taken yet. It is more than such a connection carries in the time of an answer.
const window = 1 << 20

// OneHost returns further options of a server that is reached only from its own host. By default gRPC measures a
// connection with a ping beside each message, to find the size of its windows; inside one host that costs more
// wake-ups than the message.
func OneHost() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window)}
}

// DialOptions returns the options of every client inside one process or host. Its windows are those of [OneHost].
func DialOptions() []grpc.DialOption {
	return append(dialOptions(), grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
}

// dialOptions are the options of every client.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithChainUnaryInterceptor(clientUnary),
		grpc.WithChainStreamInterceptor(clientStream),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithReadBufferSize(8 << 10),
		grpc.WithWriteBufferSize(8 << 10),
	}
}

// ServerInterceptors returns the interceptors of every server, for transports other than a grpc.Server.
func ServerInterceptors(log *slog.Logger) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	s := serverSide{log}
	return s.unary, s.stream
}

// ClientInterceptors returns the interceptors of every client, for transports other than a grpc.ClientConn.
func ClientInterceptors() (grpc.UnaryClientInterceptor, grpc.StreamClientInterceptor) {
	return clientUnary, clientStream
}

type serverSide struct{ log *slog.Logger }

func (s serverSide) unary(
	ctx context.Context,
	req any,
	info *grpc.UnaryServerInfo,
	next grpc.UnaryHandler,
) (resp any, err error) {
	ctx = incoming(ctx)
	defer func() {
		err = s.finish(ctx, info.FullMethod, recover(), err)
		if err != nil {
			resp = nil
		}
	}()
	return next(ctx, req)
}

func (s serverSide) stream(
	srv any,
	ss grpc.ServerStream,
	info *grpc.StreamServerInfo,
	next grpc.StreamHandler,
) (err error) {
	ctx := incoming(ss.Context())
	defer func() { err = s.finish(ctx, info.FullMethod, recover(), err) }()
	return next(srv, &serverStream{ss, ctx})
}

// finish logs the private part of an error and returns the public part.
func (s serverSide) finish(ctx context.Context, method string, panicked any, err error) error {
	caller := ident.CallerFrom(ctx)
	if panicked != nil {
		s.log.ErrorContext(ctx, "handler panicked", "method", method, "request_id", caller.RequestID,
			"panic", panicked, "stack", string(debug.Stack()))
		err = fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause.")
	}
	out := ToStatus(err)
	if panicked == nil && errors.Is(FromStatus(out), fault.Internal) {
		s.log.ErrorContext(ctx, "handler failed", "method", method, "request_id", caller.RequestID, "error", err)
	}
	return out
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

func incoming(ctx context.Context) context.Context {
	md, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx
	}
	one := func(key string) string {
		if v := md.Get(key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	return ident.WithCaller(ctx, ident.Caller{
		UserID: one(keyUser), Email: one(keyEmail), RequestID: one(keyRequest), AuthMode: one(keyMode),
		AgentPath: one(keyAgent), Role: one(keyRole),
	})
}

func outgoing(ctx context.Context) context.Context {
	c := ident.CallerFrom(ctx)
	kv := make([]string, 0, 12)
	for _, p := range [...][2]string{
		{keyUser, c.UserID},
		{keyEmail, c.Email},
		{keyRequest, c.RequestID},
		{keyMode, c.AuthMode},
		{keyAgent, c.AgentPath},
		{keyRole, c.Role},
	} {
		if p[1] != "" {
			kv = append(kv, p[0], p[1])
		}
	}
	if len(kv) == 0 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

func clientUnary(
	ctx context.Context,
	method string,
	req, reply any,
	cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	return answered(ctx, invoke(outgoing(ctx), method, req, reply, cc, opts...))
}

// answered returns the fault of a call made with ctx. The transport also reports a closed connection as cancelled; if
// the caller has not cancelled, that is unavailable.
func answered(ctx context.Context, err error) error {
	if status.Code(err) == codes.Canceled && len(status.Convert(err).Details()) == 0 && ctx.Err() == nil {
		err = status.Error(codes.Unavailable, status.Convert(err).Message())
	}
	return FromStatus(err)
}

func clientStream(
	ctx context.Context,
	desc *grpc.StreamDesc,
	cc *grpc.ClientConn,
	method string,
	open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	cs, err := open(outgoing(ctx), desc, cc, method, opts...)
	if err != nil {
		return nil, answered(ctx, err)
	}
	return &faultStream{cs, ctx}, nil
}

type faultStream struct {
	grpc.ClientStream
	ctx context.Context // the caller's context; the stream's own also ends with the connection
}

func (s *faultStream) SendMsg(m any) error { return answered(s.ctx, s.ClientStream.SendMsg(m)) }
func (s *faultStream) RecvMsg(m any) error { return answered(s.ctx, s.ClientStream.RecvMsg(m)) }
func (s *faultStream) CloseSend() error    { return answered(s.ctx, s.ClientStream.CloseSend()) }
func (s *faultStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, answered(s.ctx, err)
}

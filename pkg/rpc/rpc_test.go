package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers a unary call and a stream as the test specifies.
type service struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	sessionmanagerv1.UnimplementedAttachServiceServer
	unary  func(context.Context) error
	stream func(grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) error
}

func (s *service) EndSession(
	ctx context.Context,
	_ *toolrunnerv1.EndSessionRequest,
) (*toolrunnerv1.EndSessionResponse, error) {
	return &toolrunnerv1.EndSessionResponse{}, s.unary(ctx)
}

func (s *service) Attach(
	_ *sessionmanagerv1.AttachRequest,
	stream grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent],
) error {
	return s.stream(stream)
}

// world is a server and a connection to it over a real socket.
type world struct {
	*service
	log  *bytes.Buffer // read it only while no call is running
	wire *wire
	conn *grpc.ClientConn
}

// start starts a server with additional options.
func start(t *testing.T, more ...grpc.ServerOption) *world {
	t.Helper()
	w := &world{service: &service{}, log: &bytes.Buffer{}, wire: &wire{}}
	server := grpc.NewServer(append(rpc.ServerOptions(slog.New(slog.NewTextHandler(w.log, nil))), more...)...)
	toolrunnerv1.RegisterToolRunnerServiceServer(server, w.service)
	sessionmanagerv1.RegisterAttachServiceServer(server, w.service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	opts := append(rpc.DialOptions(), rpc.DefaultKeepalive.Client()...)
	opts = append(opts, grpc.WithContextDialer(w.wire.dial))
	if w.conn, err = grpc.NewClient("passthrough:///"+listener.Addr().String(), opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.wire.silent.Store(false)
		w.conn.Close()
		server.Stop()
		<-served
	})
	return w
}

// call makes the unary call.
func (w *world) call(ctx context.Context) error {
	_, err := toolrunnerv1.NewToolRunnerServiceClient(w.conn).EndSession(ctx, &toolrunnerv1.EndSessionRequest{})
	return err
}

// follow opens the stream and returns the error that ends it.
func (w *world) follow(ctx context.Context) error {
	stream, err := sessionmanagerv1.NewAttachServiceClient(w.conn).Attach(ctx, &sessionmanagerv1.AttachRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// wire is the client's network connection; while it is silent, sent data is lost without an error.
type wire struct{ silent atomic.Bool }

type wireConn struct {
	net.Conn
	*wire
}

func (w *wire) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	return &wireConn{conn, w}, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A handler's error is the same on the other side, in calls and in streams; its private part stays in the log.
func TestFaultsCrossTheWire(t *testing.T) {
	w := start(t)
	wanted := fault.New(fault.DSLInvalid, "Bad file.").With("errors", []any{map[string]any{"line": 3.0}}).WithHTTP(418)
	for name, c := range map[string]struct {
		sent error
		want *fault.Error
		log  string // text that the log must contain, "" for an empty log
	}{
		"a fault":        {wanted, wanted, ""},
		"a fault inside": {fmt.Errorf("reading /secret: %w", wanted), wanted, ""},
		"a foreign error": {
			errors.New("password=hunter2"),
			fault.New(fault.Internal, "Something went wrong inside kaged; the log has the cause."), "hunter2",
		},
		"an ended context":  {context.Canceled, fault.From(context.Canceled), ""},
		"a passed deadline": {fmt.Errorf("x: %w", context.DeadlineExceeded), fault.From(context.DeadlineExceeded), ""},
		"a status of grpc": {
			status.Error(codes.NotFound, "No such thing."), fault.New(fault.NotFound, "No such thing."), "",
		},
		"a status for the machine": {
			status.Error(codes.Unavailable, "tcp 10.0.0.1: refused"),
			fault.New(fault.Unavailable, "A part of kaged cannot be reached; try again shortly."), "",
		},
	} {
		w.unary = func(context.Context) error { return c.sent }
		w.stream = func(grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) error { return c.sent }
		for kind, err := range map[string]error{"call": w.call(t.Context()), "stream": w.follow(t.Context())} {
			got := fault.From(err)
			if got.Code != c.want.Code || got.Msg != c.want.Msg || got.HTTP != c.want.HTTP ||
				!cmp.Equal(got.Details, c.want.Details) {
				t.Errorf("%s: %s came back as %+v, want %+v", name, kind, got, c.want)
			}
		}
		log := w.log.String()
		if c.log == "" && log != "" || !strings.Contains(log, c.log) {
			t.Errorf("%s: the log has %q, want %q", name, log, c.log)
		}
		w.log.Reset()
	}
}

// A panic ends its call and not the process; the log has its stack and its request.
func TestPanic(t *testing.T) {
	w := start(t)
	w.unary = func(context.Context) error { panic("boom") }
	w.stream = func(grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) error { panic("boom") }
	ctx := ident.WithCaller(t.Context(), ident.Caller{RequestID: "REQ-1"})
	for kind, call := range map[string]func(context.Context) error{"call": w.call, "stream": w.follow} {
		if err := call(ctx); !errors.Is(err, fault.Internal) || strings.Contains(err.Error(), "boom") {
			t.Errorf("%s: a panic came back as %v", kind, err)
		}
		if log := w.log.String(); !strings.Contains(log, "boom") || !strings.Contains(log, "REQ-1") ||
			!strings.Contains(log, "rpc_test.go") {
			t.Errorf("%s: the log has %q", kind, log)
		}
		w.log.Reset()
	}
}

// The caller arrives unchanged, in calls and in streams, and an absent one stays absent.
func TestCaller(t *testing.T) {
	w := start(t)
	var got ident.Caller
	w.unary = func(ctx context.Context) error { got = ident.CallerFrom(ctx); return nil }
	w.stream = func(s grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) error {
		got = ident.CallerFrom(s.Context())
		return nil
	}
	for _, want := range []ident.Caller{
		{}, {UserID: "ada"}, {UserID: "ada", Email: "ada@localhost", RequestID: "R", AuthMode: "loopback"},
	} {
		ctx := ident.WithCaller(t.Context(), want)
		if err := w.call(ctx); err != nil || got != want {
			t.Errorf("call: %v %+v, want %+v", err, got, want)
		}
		got = ident.Caller{}
		if err := w.follow(ctx); !errors.Is(err, io.EOF) || got != want {
			t.Errorf("stream: %v %+v, want %+v", err, got, want)
		}
	}
}

// A client's own cancellation or deadline keeps its code, and a missing server is unavailable.
func TestTheClientsOwnFaults(t *testing.T) {
	w := start(t)
	w.unary = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.call(ctx); !errors.Is(err, fault.Cancelled) {
		t.Errorf("a cancelled call: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := w.call(ctx); !errors.Is(err, fault.DeadlineExceeded) {
		t.Errorf("a call without time: %v", err)
	}
	nobody, err := grpc.NewClient("passthrough:///127.0.0.1:1", rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	_, err = toolrunnerv1.NewToolRunnerServiceClient(nobody).EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{})
	if !errors.Is(err, fault.Unavailable) {
		t.Errorf("nobody there: %v", err)
	}
	large := strings.Repeat("x", rpc.MaxMessage)
	_, err = toolrunnerv1.NewToolRunnerServiceClient(w.conn).
		EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{SessionId: large})
	tooLarge(t, "a message past the limit", err)
	tooLarge(
		t,
		"a status of the transport",
		rpc.FromStatus(status.Error(codes.ResourceExhausted, "trying to send message larger than max")),
	)
}

// tooLarge checks that err is kaged's error for a message above the maximum size.
func tooLarge(t *testing.T, what string, err error) {
	t.Helper()
	f := fault.From(err)
	if f.Code != fault.PayloadTooLarge || f.Details["limit_bytes"] != rpc.MaxMessage || strings.Contains(f.Msg, "max") {
		t.Errorf("%s: %s %q %v", what, f.Code, f.Msg, f.Details)
	}
}

// A vanished client loses its holds after a missed keepalive, long before TCP detects the loss.
func TestKeepaliveEndsGhosts(t *testing.T) {
	w := start(t, rpc.Keepalive{Interval: time.Second, Timeout: 50 * time.Millisecond}.Server()...)
	held, ended := make(chan struct{}), make(chan error, 1)
	w.stream = func(s grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent]) error {
		close(held)
		<-s.Context().Done()
		ended <- s.Context().Err()
		return s.Context().Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() { defer close(followed); _ = w.follow(ctx) }()
	<-held
	w.wire.silent.Store(true)
	if err := <-ended; err == nil {
		t.Error("the hold ended without an error")
	}
	cancel()
	<-followed
}

// A status has its code for clients without kaged's details, and its details for those that know them.
func TestToStatus(t *testing.T) {
	sent := fault.New(fault.SessionAttached, "Held.").With("holder", "a:1").With("seq", 3)
	st, ok := status.FromError(rpc.ToStatus(fmt.Errorf("attach: %w", sent)))
	if !ok || st.Message() != "Held." || codes.Code(sent.Code.Spec().GetGrpc()) != st.Code() {
		t.Errorf("status = %v", st)
	}
	var info *errdetails.ErrorInfo
	for _, d := range st.Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			info = i
		}
	}
	if info.GetReason() != "SESSION_ATTACHED" || info.GetDomain() != rpc.Domain || info.GetMetadata()["holder"] != "a:1" ||
		info.GetMetadata()["seq"] != "3" {
		t.Errorf("error info = %v", info)
	}
	if rpc.ToStatus(nil) != nil || rpc.FromStatus(nil) != nil {
		t.Error("no error became one")
	}
	if err := rpc.FromStatus(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("the end of a stream became %v", err)
	}
}

// Every class of status has a code.
func TestClasses(t *testing.T) {
	for code, want := range map[codes.Code]fault.Code{
		codes.InvalidArgument: fault.BadRequest, codes.OutOfRange: fault.BadRequest, codes.NotFound: fault.NotFound,
		codes.Unimplemented: fault.MethodNotAllowed, codes.Unauthenticated: fault.Unauthenticated,
		codes.PermissionDenied: fault.Forbidden,
		codes.AlreadyExists:    fault.Conflict, codes.Aborted: fault.Conflict, codes.FailedPrecondition: fault.Conflict,
		codes.ResourceExhausted: fault.PayloadTooLarge, codes.Unavailable: fault.Unavailable, codes.Canceled: fault.Cancelled,
		codes.DeadlineExceeded: fault.DeadlineExceeded, codes.Internal: fault.Internal, codes.Unknown: fault.Internal,
		codes.DataLoss: fault.Internal,
	} {
		got := fault.From(rpc.FromStatus(status.Error(code, "goroutine 1: /home/ada")))
		if got.Code != want {
			t.Errorf("%s became %s, want %s", code, got.Code, want)
		}
		if want == fault.Internal && strings.Contains(got.Msg, "goroutine") {
			t.Errorf("%s shows %q", code, got.Msg)
		}
	}
}

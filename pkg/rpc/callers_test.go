package rpc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/certs"
	_ "kaged.dev/proto/gen/kaged/dappool/v1"
	_ "kaged.dev/proto/gen/kaged/gateway/v1"
	_ "kaged.dev/proto/gen/kaged/harness/v1"
	_ "kaged.dev/proto/gen/kaged/issue/v1"
	_ "kaged.dev/proto/gen/kaged/lsppool/v1"
	_ "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// table repeats the caller table on purpose, so that a changed option of the contract is noticed.
var table = map[string]string{
	"gateway.v1.GatewayService":           "",
	"sessionmanager.v1.*":                 "gateway",
	"harness.v1.HarnessService":           "session-manager",
	"toolrunner.v1.ToolRunnerService":     "session-manager",
	"sandboxsupervisor.v1.SandboxService": "tool-runner lsp-pool dap-pool",
	"lsppool.v1.LSPPoolService":           "tool-runner",
	"dappool.v1.DAPPoolService":           "tool-runner",
	"issue.v1.IssueService":               "gateway",
	"issue.v1.IssueToolService":           "tool-runner",
	"SessionService/EndSession":           "gateway session-manager",
	"IssueService/GetIssue":               "gateway session-manager",
	"IssueToolService/RemindTodos":        "session-manager",
	"IssueToolService/AssignWorkspace":    "session-manager",
	"SandboxService/AttachProcess":        "gateway tool-runner lsp-pool dap-pool",
	"SandboxService/ControlProcess":       "gateway tool-runner lsp-pool dap-pool",
	"ToolRunnerService/ListTools":         "harness session-manager",
	"ToolRunnerService/RunTool":           "harness",
	"ToolRunnerService/CancelTool":        "harness",
	"ToolRunnerService/HoldRun":           "harness",
	"ToolRunnerService/KeepRun":           "harness",
	"ToolRunnerService/HoldWorkspace":     "harness",
	"ToolRunnerService/HoldCage":          "harness",
	"ToolRunnerService/ReleaseCage":       "harness",
}

// allowed returns the services that may call a method by the table, and the method's full name.
func allowed(m protoreflect.MethodDescriptor) (fullMethod string, callers []string) {
	service := strings.TrimPrefix(string(m.Parent().FullName()), "kaged.")
	fullMethod = "/kaged." + service + "/" + string(m.Name())
	bare := string(m.Parent().Name()) + "/" + string(m.Name())
	text, found := table[bare]
	if !found {
		text, found = table[service]
	}
	if !found {
		text = table[strings.TrimSuffix(service, string(m.Parent().Name()))+"*"]
	}
	return fullMethod, strings.Fields(text)
}

// ours returns every method of kaged's services.
func ours() (list []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				if strings.HasPrefix(string(f.Package()), "kaged.") {
					list = append(list, methods.Get(j))
				}
			}
		}
		return true
	})
	return list
}

// door is a server on TCP that answers every method, with session-manager's certificate.
type door struct {
	ca       *certs.CA
	address  string
	debugged chan rpc.DebugCall // calls with a debugging certificate
	refuse   error              // error of recording such calls
}

func openDoor(t *testing.T) *door {
	t.Helper()
	ca := certs.New(t)
	m, err := mtls.Load(ca.Issue("session-manager"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return openDoorAs(t, ca, m)
}

func openDoorAs(t *testing.T, ca *certs.CA, m *mtls.Material) *door {
	t.Helper()
	d := &door{ca: ca, debugged: make(chan rpc.DebugCall, 1000)}
	log := slog.New(slog.DiscardHandler)
	peers := rpc.Peers{TLS: m, Log: log, Debugged: func(_ context.Context, c rpc.DebugCall) error {
		d.debugged <- c
		return d.refuse
	}}
	opts := append(rpc.ServerOptions(log), peers.ServerOptions()...)
	server := grpc.NewServer(append(opts, grpc.UnknownServiceHandler(func(any,
		grpc.ServerStream,
	) error {
		return nil
	}))...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.address = listener.Addr().String()
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	return d
}

func (d *door) material(t *testing.T, service string) *mtls.Material {
	t.Helper()
	m, err := mtls.Load(d.ca.Issue(service), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// dial connects as m and requires the identity want.
func (d *door) dial(t *testing.T, m *mtls.Material, want string) *grpc.ClientConn {
	t.Helper()
	between := rpc.Between{TLS: m, Want: mtls.Identity{Service: want}, CallTimeout: time.Minute}
	conn, err := grpc.NewClient("passthrough:///"+d.address, between.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// call calls any method, with an empty message.
func call(ctx context.Context, conn grpc.ClientConnInterface, method string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Every identity may call exactly its methods in the table, and check health. A debugging certificate may call all
// methods, and each of its calls is recorded.
func TestCallerTable(t *testing.T) {
	t.Parallel()
	d, methods := openDoor(t), ours()
	if len(methods) < 130 {
		t.Fatalf("%d methods are known, want all", len(methods))
	}
	for _, who := range append(mtls.Services(), mtls.Debug) {
		conn := d.dial(t, d.material(t, who), "session-manager")
		check := func(method string, may bool) {
			t.Helper()
			err := call(t.Context(), conn, method)
			if may && err != nil || !may && (!errors.Is(err, fault.Forbidden) || fault.From(
				err).Details["reason"] != "caller_not_allowed") {
				t.Errorf("%s calls %s: got %v, want allowed: %t", who, method, err, may)
			}
		}
		for _, m := range methods {
			method, callers := allowed(m)
			check(method, who == mtls.Debug || slices.Contains(callers, who))
		}
		check("/grpc.health.v1.Health/Check", true)
		check("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", who == mtls.Debug)
		check("/kaged.no.v1.Such/Method", who == mtls.Debug)
	}
	if got, want := len(d.debugged), len(methods)+2; got != want { // health checks are not recorded
		t.Errorf("%d calls with the debugging certificate were recorded, want %d", got, want)
	}
	if c := <-d.debugged; c.Serial == "" || c.Name == "" || c.Remote == "" || c.Until.Before(time.Now()) {
		t.Errorf("a record lacks something: %+v", c)
	}
}

// A call with a debugging certificate fails if its record cannot be stored.
func TestUnrecordedDebugCallIsRefused(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	d.refuse = fault.New(fault.Unavailable, "The database does not answer.")
	method, _ := allowed(ours()[0])
	if err := call(t.Context(), d.dial(t, d.material(t, mtls.Debug), "session-manager"), method); !errors.Is(err,
		fault.Unavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}

// A connection requires TLS, a certificate of the CA, and the identity that the client wants.
func TestHandshakesThatFail(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	foreign, err := mtls.Load(certs.New(t).Issue("gateway"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := grpc.NewClient("passthrough:///"+d.address, rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	gateway := d.material(t, "gateway")
	for name, conn := range map[string]*grpc.ClientConn{
		"without TLS":     plain,
		"of another CA":   d.dial(t, foreign, "session-manager"),
		"another service": d.dial(t, gateway, "harness"),
	} {
		if err := call(t.Context(), conn, "/grpc.health.v1.Health/Check"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: got %v, want unavailable", name, err)
		}
	}
}

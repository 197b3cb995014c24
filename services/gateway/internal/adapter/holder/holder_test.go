package holder_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/adapter/holder"
	"kaged.dev/services/gateway/internal/adapter/holderconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a session-manager that sends events and returns err. With one event and no err it waits for its
// caller's end.
type manager struct {
	sessionmanagerv1.UnimplementedAttachServiceServer
	events []*sessionmanagerv1.AttachEvent
	err    error
}

// Attach implements AttachService.
func (m *manager) Attach(
	_ *sessionmanagerv1.AttachRequest, stream grpc.ServerStreamingServer[sessionmanagerv1.AttachEvent],
) error {
	for _, e := range m.events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	if len(m.events) == 1 && m.err == nil {
		<-stream.Context().Done()
	}
	return m.err
}

// serve returns a connection to m over gRPC.
func serve(t *testing.T, m *manager) grpc.ClientConnInterface {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(rpc.ServerOptions(slog.New(slog.DiscardHandler))...)
	sessionmanagerv1.RegisterAttachServiceServer(server, m)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///manager", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	return conn
}

func attached(seq int64) *sessionmanagerv1.AttachEvent {
	return &sessionmanagerv1.AttachEvent{Event: &sessionmanagerv1.AttachEvent_Attached{
		Attached: &sessionmanagerv1.Attached{ServerSeq: map[string]int64{"output": seq}},
	}}
}

func ended(code string) *sessionmanagerv1.AttachEvent {
	return &sessionmanagerv1.AttachEvent{Event: &sessionmanagerv1.AttachEvent_Ended{
		Ended: &sessionmanagerv1.AttachEnded{Code: code, Reason: "r"},
	}}
}

// A session is held at the process that has its lease, also if another process is asked first. The hold reports
// each request of another socket, and its end.
func TestAttachFollowsTheLease(t *testing.T) {
	t.Parallel()
	wanted := &sessionmanagerv1.AttachEvent{
		Event: &sessionmanagerv1.AttachEvent_Wanted{Wanted: &sessionmanagerv1.AttachWanted{}},
	}
	there := serve(t, &manager{
		events: []*sessionmanagerv1.AttachEvent{attached(7), wanted, {}, wanted, ended("replaced")},
	})
	here := serve(t, &manager{err: fault.New(fault.StaleLease, "not here").With("holder", "there")})
	h := holder.New(holderconn.New(here, func(address string) (grpc.ClientConnInterface, error) {
		if address != "there" {
			t.Errorf("dialed %q", address)
		}
		return there, nil
	}))
	hold, err := h.Attach(t.Context(), "S", false)
	if err != nil {
		t.Fatal(err)
	}
	if seq := hold.ServerSeq()["output"]; seq != 7 {
		t.Errorf("server_seq %d", seq)
	}
	asked := 0
	if end, err := hold.Wait(func() { asked++ }); asked != 2 || err != nil || end.Code != "replaced" || end.Reason != "r" {
		t.Errorf("the hold ended with %+v, %v, wanted %d times", end, err, asked)
	}
}

// Attach fails if the first event does not grant the session. A lost hold ends with an error.
func TestAttachRefusals(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		manager *manager
		want    fault.Code
	}{
		"refused":        {&manager{err: fault.New(fault.SessionAttached, "held")}, fault.SessionAttached},
		"ended at once":  {&manager{events: []*sessionmanagerv1.AttachEvent{ended("server_shutdown")}}, fault.Unavailable},
		"an empty event": {&manager{events: []*sessionmanagerv1.AttachEvent{{}}}, fault.Internal},
		"no event":       {&manager{events: []*sessionmanagerv1.AttachEvent{}}, fault.Internal},
		"held, then lost": {
			&manager{events: []*sessionmanagerv1.AttachEvent{attached(1)}, err: fault.New(fault.Unavailable, "gone")},
			fault.Unavailable,
		},
	} {
		hold, err := holder.New(holderconn.New(serve(t, x.manager), nil)).Attach(t.Context(), "S", true)
		if err == nil {
			_, err = hold.Wait(func() {})
		}
		if fault.CodeOf(err) != x.want {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
}

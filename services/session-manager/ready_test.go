package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
)

// methods returns all methods of a server.
func methods(t *testing.T, server *grpc.Server) (list []protoreflect.MethodDescriptor) {
	t.Helper()
	for name := range server.GetServiceInfo() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		service := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range service.Len() {
			list = append(list, service.Get(i))
		}
	}
	if len(list) < 30 {
		t.Fatalf("got %d methods, want all of the service", len(list))
	}
	return list
}

func fullName(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}

// callEmpty calls a method with an empty request.
func callEmpty(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor) error {
	req, resp := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingServer() {
		return conn.Invoke(ctx, fullName(m), req, resp)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fullName(m))
	if err == nil {
		err = stream.SendMsg(req)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(resp)
	}
	return err
}

// Every method refuses calls with the same error until the database is open.
func TestNotReady(t *testing.T) {
	t.Parallel()
	w := &world{t: t, harness: newHarness(t), tools: &toolRunner{}}
	conn, server := serve(t, w.service("postgres:///nothing?host=/nowhere", "").Register)
	for _, m := range methods(t, server) {
		t.Run(string(m.Name()), func(t *testing.T) {
			f := refused(t, callEmpty(as(t, "ada"), conn, m), fault.Unavailable)
			if want := "The database cannot be reached yet; try again shortly."; f.Msg != want ||
				f.Details["subsystem"] != "storage" {
				t.Errorf("got %q with %v, want %q of the subsystem storage", f.Msg, f.Details, want)
			}
		})
	}
}

// Every method refuses calls without an operator, except those that the contract names: calls of other services,
// and those of a browser that is signing in.
func TestOperatorIsRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	var without []string
	for _, m := range methods(t, n.server) {
		err := callEmpty(t.Context(), n.conn, m)
		asked := errors.Is(err, fault.Unauthenticated) &&
			fault.From(err).Msg == "Sessions and projects belong to operators; sign in first."
		if !asked {
			without = append(without, string(m.Name()))
		}
		if asked == rpc.OptionsOf(fullName(m)).WithoutOperator {
			t.Errorf("%s: got %v, want the answer of a method with the options %+v", m.Name(), err, rpc.OptionsOf(fullName(m)))
		}
	}
	slices.Sort(without)
	want := []string{
		"AuthenticateToken", "ConsumeLaunchToken", "GetAuthEpoch", "GetOperator", "IssueLaunchToken", "QueryAudit",
		"RecordAudit", "RotateAuthEpoch",
	}
	if d := cmp.Diff(want, without); d != "" {
		t.Errorf("methods that are answered without an operator (-want +got):\n%s", d)
	}
}

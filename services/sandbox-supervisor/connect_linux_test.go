package sandboxsupervisor_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// echo is a program that prints its port and echoes the data of one connection until that ends.
const echo = `
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print("port", s.getsockname()[1], flush=True)
c = s.accept()[0]
while (d := c.recv(65536)):
    c.sendall(d)
    if d.endswith(b"bye"):
        break
`

// listen starts echo and returns its port.
func listen(
	t *testing.T, client sandboxsupervisorv1.SandboxServiceClient, change ...func(*sandboxsupervisorv1.ExecStart),
) (*running, uint32) {
	t.Helper()
	r := begin(t, client, shell(t, `exec python3 -c "$PROGRAM"`, append(change, pipes, env("PROGRAM", echo))...))
	_, line, _ := strings.Cut(r.until("\n"), "port ")
	port, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return r, uint32(port)
}

// connect opens a connection of a session.
func connect(
	t *testing.T, client sandboxsupervisorv1.SandboxServiceClient, session, cage string, port uint32,
) (sandboxsupervisorv1.SandboxService_ConnectClient, error) {
	t.Helper()
	stream, err := client.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	owner := &sandboxsupervisorv1.Owner{SessionId: session}
	start := &sandboxsupervisorv1.ConnectRequest_Start{
		Start: &sandboxsupervisorv1.ConnectStart{Owner: owner, CageId: cage, Port: port},
	}
	err = stream.Send(&sandboxsupervisorv1.ConnectRequest{Request: start})
	if err != nil && !errors.Is(err, io.EOF) { // the first receive returns the refusal
		t.Fatal(err)
	}
	event, err := stream.Recv()
	if err == nil && event.GetConnected() == nil {
		t.Fatalf("the first event is %v", event)
	}
	return stream, err
}

// says sends a text and reads it back.
func says(t *testing.T, stream sandboxsupervisorv1.SandboxService_ConnectClient, text string) {
	t.Helper()
	data := &sandboxsupervisorv1.ConnectRequest_Data{Data: []byte(text)}
	if err := stream.Send(&sandboxsupervisorv1.ConnectRequest{Request: data}); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != text; {
		event, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(got), err)
		}
		got += string(event.GetData())
	}
}

// Bytes go to a port of the loopback and come back, in a cage and without one; the end of the connection ends the
// stream.
func TestConnect(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	cage := mustHold(t, client, project(t), grantsWork())
	for name, c := range map[string]struct {
		cage   string
		change []func(*sandboxsupervisorv1.ExecStart)
	}{"caged": {cage.id, []func(*sandboxsupervisorv1.ExecStart){cage.in}}, "uncaged": {}} {
		t.Run(name, func(t *testing.T) {
			r, port := listen(t, client, c.change...)
			stream, err := connect(t, client, "session", c.cage, port)
			if err != nil {
				t.Fatal(err)
			}
			says(t, stream, "hello")
			says(t, stream, strings.Repeat("x", 200_000))
			says(t, stream, "bye")
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the far side has closed: %v", err)
			}
			r.wait()
			_, err = connect(t, client, "session", c.cage, port)
			if !errors.Is(fault.From(err), fault.InvalidParams) {
				t.Errorf("without a listener: %v", err)
			}
		})
	}
}

// Only the owner reaches a cage's loopback, which is not the host's and ends with the cage.
func TestConnectIsForTheOwner(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	cage := mustHold(t, client, project(t), grantsWork())
	_, port := listen(t, client, cage.in)
	for _, c := range []struct {
		name, session, cage string
		port                uint32
		want                fault.Code
	}{
		{"another session's", "other", cage.id, port, fault.Conflict},
		{"no owner", "", cage.id, port, fault.InvalidParams},
		{"no port", "session", cage.id, 0, fault.InvalidParams},
		{"no such port", "session", cage.id, 1 << 16, fault.InvalidParams},
		{"an unknown cage", "session", "01ARZ3NDEKTSV4RRFFQ69G5FAV", port, fault.CageUnavailable},
		{"the host's loopback", "session", "", port, fault.InvalidParams},
	} {
		_, err := connect(t, client, c.session, c.cage, c.port)
		if !errors.Is(fault.From(err), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	stream, err := connect(t, client, "session", cage.id, port)
	if err != nil {
		t.Fatal(err)
	}
	says(t, stream, "hello")
	cage.release()
	if _, err := stream.Recv(); err == nil || status.Code(err) == codes.Canceled {
		t.Errorf("after the end of the cage: %v", err)
	}
}

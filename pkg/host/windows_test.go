package host_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/rpc"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// recorded is a connection that keeps what it carries.
type recorded struct {
	net.Conn
	mu       sync.Mutex
	in, sent bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in.Write(p[:n])
	return n, err
}

func (r *recorded) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent.Write(p)
	return r.Conn.Write(p)
}

// count returns the number of whole HTTP/2 frames of a type.
func count(data []byte, kind byte) (n int) {
	for len(data) >= 9 {
		length := int(data[0])<<16 | int(data[1])<<8 | int(data[2])
		if data[3] == kind {
			n++
		}
		data = data[min(9+length, len(data)):]
	}
	return n
}

// Calls inside one host have no pings beside their messages, in neither direction: each would wake both processes.
func TestNoPingsInOneHost(t *testing.T) {
	t.Parallel()
	const data, ping, preface, calls = 0, 6, 24, 20
	opts := options(t)
	h, err := host.New(opts, newProbe("probe", &journal{}).module())
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, h)()
	var wire *recorded
	conn, err := grpc.NewClient("passthrough:///probe", append(rpc.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", host.SocketPath(opts.DataDir.String(), "probe"))
			wire = &recorded{Conn: c}
			return wire, err
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range calls {
		if _, err := toolrunnerv1.NewToolRunnerServiceClient(conn).
			EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	wire.mu.Lock()
	defer wire.mu.Unlock()
	in, sent := wire.in.Bytes(), wire.sent.Bytes()[preface:]
	if count(in, data) < calls || count(sent, data) < calls {
		t.Fatalf("the recording has %d messages in and %d out", count(in, data), count(sent, data))
	}
	if count(in, ping)+count(sent, ping) > 0 {
		t.Errorf("%d pings of the server, %d of the client", count(in, ping), count(sent, ping))
	}
}

package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/certs"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// withTLS returns options with the certificate of a service and a configuration.
func withTLS(t *testing.T, files mtls.Files, toml string) host.Options {
	t.Helper()
	opts := options(t)
	text := fmt.Sprintf("[tls]\nca_file = %q\ncert_file = %q\nkey_file = %q\n", files.CA, files.Cert, files.Key)
	if !files.Named() {
		text = ""
	}
	file, err := config.Parse("local.toml", []byte(text+toml))
	if err != nil {
		t.Fatal(err)
	}
	opts.File = file
	return opts
}

// A service listens on TCP, loopback included, only with its own certificate and at an address that others can dial;
// the refusal contains the command to run.
func TestTCPNeedsTLS(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	mine, other := ca.Issue("harness"), ca.Issue("gateway")
	for name, c := range map[string]struct {
		files mtls.Files
		keys  string
		want  string
	}{
		"no TLS":              {mtls.Files{}, `listen = "10.0.0.1:7422"`, "kaged certs issue DIR harness"},
		"no TLS, loopback":    {mtls.Files{}, `listen = ["unix:/run/h.sock", "127.0.0.1:7422"]`, "KAGED_TLS_CERT_FILE"},
		"another's":           {other, `listen = "127.0.0.1:7422"`, "with the certificate of gateway.kaged"},
		"a part":              {mtls.Files{CA: mine.CA, Cert: mine.Cert}, `listen = "127.0.0.1:7422"`, "not key_file"},
		"everywhere":          {mine, `listen = "0.0.0.0:7422"`, "KAGED_SERVICES_HARNESS_ADDRESS"},
		"everywhere, IPv6":    {mine, `listen = "[::]:7422"`, "set address"},
		"everywhere, no name": {mine, `listen = ":7422"`, "set address"},
		"no port":             {mine, `listen = "harness"`, `neither "unix:PATH" nor "host:port"`},
		"a place with TLS":    {mine, `listen = "127.0.0.1:7422"`, ""},
		"everywhere, told":    {mine, "listen = \"0.0.0.0:7422\"\naddress = \"10.0.0.1:7422\"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := host.New(withTLS(t, c.files, "[services.harness]\n"+c.keys+"\n"), newProbe("harness", &journal{}).module())
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			if fault.CodeOf(err) != fault.BadRequest || !strings.Contains(fault.From(err).Msg, c.want) {
				t.Errorf("got %v, want bad_request with %q", err, c.want)
			}
		})
	}
}

// audited is a probe that records calls with a debugging certificate.
type audited struct {
	*probe
	calls chan rpc.DebugCall
}

func (a *audited) DebugCalled(_ context.Context, c rpc.DebugCall) error {
	a.calls <- c
	return nil
}

// A service listens on a unix socket and on TCP at once. The socket is as without TCP. Over TCP the service answers the
// permitted callers that ask for this service, and records calls with a debugging certificate.
func TestBetweenHosts(t *testing.T) {
	t.Parallel()
	ca, address := certs.New(t), testkit.Address()
	opts := withTLS(t, ca.Issue("tool-runner"), "")
	socket := host.SocketPath(opts.DataDir.String(), "tool-runner")
	listen := fmt.Sprintf("[services.tool-runner]\nlisten = [%q, %q]\n", "unix:"+socket, address)
	opts = withTLS(t, ca.Issue("tool-runner"), listen)
	s := &audited{newProbe("tool-runner", &journal{}), make(chan rpc.DebugCall, 10)}
	module := s.module()
	module.New = func(env *host.Env) (host.Service, error) { s.env = env; return s, nil }
	h, err := host.New(opts, module)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, h)()
	if got := s.env.Address(); got != address {
		t.Errorf("it tells %q, want the address that other hosts reach, %q", got, address)
	}
	call := func(files mtls.Files, service, at string) error {
		t.Helper()
		elsewhere, err := host.NewElsewhere(
			withTLS(t, files, fmt.Sprintf("[services.%s]\naddress = %q\n", service, at)).File, opts.DataDir, opts.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		conn := elsewhere.Dial(service)
		_, err = toolrunnerv1.NewToolRunnerServiceClient(conn).EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{})
		return err
	}
	if err := call(mtls.Files{}, "tool-runner", "unix:"+socket); err != nil {
		t.Errorf("over the socket: %v", err)
	}
	if err := call(ca.Issue("session-manager"), "tool-runner", address); err != nil {
		t.Errorf("a caller of the table: %v", err)
	}
	if err := call(ca.Issue("gateway"), "tool-runner", address); !errors.Is(err, fault.Forbidden) {
		t.Errorf("another service: got %v, want forbidden", err)
	}
	if err := call(ca.Issue("session-manager"), "harness", address); !errors.Is(err, fault.Unavailable) {
		t.Errorf("who wants another service: got %v, want unavailable", err)
	}
	if err := call(mtls.Files{}, "tool-runner", address); !errors.Is(err, fault.Unavailable) || !strings.Contains(
		err.Error(), "kaged certs") {
		t.Errorf("who has no certificate: got %v, want unavailable that says how to get one", err)
	}
	if len(s.calls) != 0 {
		t.Errorf("%d calls were taken for a debugger's", len(s.calls))
	}
	if err := call(ca.Issue("debug"), "tool-runner", address); err != nil {
		t.Errorf("a debugging certificate: %v", err)
	}
	if c := <-s.calls; !strings.HasSuffix(c.Method, "/EndSession") || c.Name != "debug.kaged" {
		t.Errorf("the record has %+v", c)
	}
	health := func(files mtls.Files) error {
		elsewhere, err := host.NewElsewhere(withTLS(t, files, listen).File, opts.DataDir, opts.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		_, err = grpc_health_v1.NewHealthClient(elsewhere.Dial("tool-runner")).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{})
		return err
	}
	if err := health(mtls.Files{}); err != nil {
		t.Errorf("--health over the socket of both places: %v", err)
	}
}

// fickle is a probe with changing health.
type fickle struct {
	*probe
	away atomic.Bool
}

func (f *fickle) Ready(context.Context) error {
	if f.away.Load() {
		return fault.New(fault.Unavailable, "The database is away.")
	}
	return nil
}

// Calls go in turn to the healthy replicas behind a name.
func TestReplicas(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	var replicas []*fickle
	var addresses []resolver.Address
	for range 2 {
		f := &fickle{probe: newProbe("harness", &journal{})}
		module := f.module()
		module.New = func(env *host.Env) (host.Service, error) { f.env = env; return f, nil }
		listen := fmt.Sprintf("[services.harness]\nlisten = %q\n", testkit.Address())
		h, err := host.New(withTLS(t, ca.Issue("harness"), listen), module)
		if err != nil {
			t.Fatal(err)
		}
		defer run(t, h)()
		replicas = append(replicas, f)
		addresses = append(addresses, resolver.Address{Addr: f.env.Address()})
	}
	material, err := mtls.Load(ca.Issue("session-manager"), options(t).Log)
	if err != nil {
		t.Fatal(err)
	}
	names := manual.NewBuilderWithScheme("replicas")
	names.InitialState(resolver.State{Addresses: addresses})
	between := rpc.Between{
		TLS: material, Want: mtls.Identity{Service: "harness"}, Replicas: true, CallTimeout: rpc.DefaultCallTimeout,
	}
	conn, err := grpc.NewClient("replicas:///harness",
		append(between.DialOptions(), grpc.WithResolvers(names))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := toolrunnerv1.NewToolRunnerServiceClient(conn)
	answered := func() string {
		t.Helper()
		var from peer.Peer
		if _, err := client.EndSession(t.Context(), &toolrunnerv1.EndSessionRequest{}, grpc.Peer(&from)); err != nil {
			t.Fatal(err)
		}
		return from.Addr.String()
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		seen[answered()] = true
	}
	replicas[0].away.Store(true)
	for len(seen) > 1 { // until the health of each replica is known
		clear(seen)
		for range 10 {
			seen[answered()] = true
		}
	}
	if seen[replicas[0].env.Address()] {
		t.Errorf("the replica that is away is the one that answers: %v", seen)
	}
}

package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	busembedded "kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/services/kaged"
	"kaged.dev/test/e2e/kagedtest"
)

// in the order of their start; a service finds its peers at the time of a call, so any order works
var serviceNames = func() (names []string) {
	for _, module := range kaged.Modules() {
		names = append(names, module.Name)
	}
	return names
}()

// constellation has each service in its own process.
type constellation struct {
	*kagedtest.World
	env       []string
	processes map[string]*kagedtest.Process
}

func startAlone(t *testing.T, llm *fakellm.Server, env ...string) *constellation {
	t.Helper()
	return startConfigured(t, kagedtest.FakeModels(llm, "anthropic"), env...)
}

// startConfigured starts each service with toml as the operator's configuration.
func startConfigured(t *testing.T, toml string, env ...string) *constellation {
	t.Helper()
	c := &constellation{World: kagedtest.NewWorld(t, toml), processes: map[string]*kagedtest.Process{}}
	c.env = append(append(append([]string{}, c.Env...), databaseEnv(t)...), "KAGED_NATS_URL="+natsURL(t),
		"KAGED_LISTEN=127.0.0.1:0")
	c.env = append(c.env, env...)
	for _, name := range serviceNames {
		c.start(t, name)
	}
	c.ready(t)
	return c
}

// natsURL returns the address of a NATS server that listens on a port, as for separate services.
func natsURL(t *testing.T) string {
	t.Helper()
	srv, err := busembedded.Start(busembedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Token: "alone"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	return srv.URL()
}

func (c *constellation) start(t *testing.T, name string) {
	t.Helper()
	c.processes[name] = kagedtest.Command(t, name, c.env)
}

func (c *constellation) conn(t *testing.T, name string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+host.SocketPath(c.DataDir, name), rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (c *constellation) ready(t *testing.T) {
	t.Helper()
	for _, name := range serviceNames {
		c.serves(t, name)
	}
}

// serves waits until a service serves.
func (c *constellation) serves(t *testing.T, name string) {
	t.Helper()
	conn := c.conn(t, name)
	defer conn.Close()
	health := grpc_health_v1.NewHealthClient(conn)
	kagedtest.Eventually(t, name+" serves", func() bool {
		resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
}

// Each service runs in its own process and uses unix sockets: it lists its RPCs for grpcurl, and a complete session
// works.
func TestEachServiceAlone(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(repair()...))
	c := startAlone(t, llm)
	for _, name := range serviceNames {
		own := "kaged." + strings.ReplaceAll(name, "-", "") + ".v1."
		list := reflect(t, c.conn(t, name))
		if !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, own) }) ||
			!slices.Contains(list, "grpc.health.v1.Health") {
			t.Errorf("%s lists %v", name, list)
		}
	}
	launch := kagedtest.Command(t, "kaged", c.env, "auth", "launch")
	if out, code := launch.Rest(t); code != 0 || !strings.Contains(out, "/api/v1/launch?token=") {
		t.Errorf("kaged auth launch ended with %d and said %q, %q", code, out, launch.Stderr)
	}
	dir := c.Project(t)
	s := kagedtest.Open(t, c.SignIn(t), dir)
	if outcome := s.Run(t, "fix the failing test"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	s.Contiguous(t)
	checkMessages(t, s)
	if out, err := goTest(t, dir); err != nil {
		t.Errorf("the test still fails:\n%s", out)
	}
	for name, p := range c.processes {
		p.Signal(syscall.SIGTERM)
		if _, code := p.Rest(t); code != 0 {
			t.Errorf("%s ended with %d: %s", name, code, p.Stderr.Tail(5))
		}
	}
}

func reflect(t *testing.T, conn *grpc.ClientConn) []string {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	return names
}

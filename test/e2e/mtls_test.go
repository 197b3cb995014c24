package e2e_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/certs"
	"kaged.dev/pkg/testkit/fakellm"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/test/e2e/kagedtest"
)

// hosts has each service as if on its own host: a process with a certificate, a data directory and an address, and no
// common socket.
type hosts struct {
	*kagedtest.World
	ca        *certs.CA
	addresses map[string]string
	env       map[string][]string
	processes map[string]*kagedtest.Process
}

func startHosts(t *testing.T, llm *fakellm.Server) *hosts {
	t.Helper()
	h := &hosts{
		World: kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")), ca: certs.New(t),
		addresses: map[string]string{}, env: map[string][]string{}, processes: map[string]*kagedtest.Process{},
	}
	shared := append(append([]string{}, h.Env...), databaseEnv(t)...)
	shared = append(shared, "KAGED_NATS_URL="+natsURL(t), "KAGED_LISTEN=127.0.0.1:0")
	for _, name := range serviceNames {
		if name != "gateway" { // its RPCs are for the operator's own command line
			h.addresses[name] = testkit.Address()
			shared = append(shared, config.EnvName("services", name, "address")+"="+h.addresses[name])
		}
	}
	for _, name := range serviceNames {
		h.env[name] = append(append([]string{}, shared...), certs.Env(h.ca.Issue(name))...)
		if name != "gateway" {
			h.env[name] = append(h.env[name], config.EnvName("services", name, "listen")+"="+h.addresses[name],
				"KAGED_DATA_DIR="+filepath.Join(h.Dir, "data-"+name))
		}
		h.processes[name] = kagedtest.Command(t, name, h.env[name])
	}
	h.ready(t)
	return h
}

// restart starts a service again.
func (h *hosts) restart(t *testing.T, name string) {
	t.Helper()
	h.processes[name] = kagedtest.Command(t, name, h.env[name])
	h.ready(t)
}

func (h *hosts) ready(t *testing.T) {
	t.Helper()
	for _, name := range serviceNames {
		conn := grpc.ClientConnInterface(nil)
		if name == "gateway" {
			c, err := grpc.NewClient("unix:"+host.SocketPath(h.DataDir, name), rpc.DialOptions()...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conn = c
		} else {
			conn = h.as(t, mtls.Debug, name)
		}
		health := grpc_health_v1.NewHealthClient(conn)
		kagedtest.Eventually(t, name+" serves", func() bool {
			resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
		})
	}
	if _, code := kagedtest.Command(t, "harness", h.env["harness"], "--health").Rest(t); code != 0 {
		t.Errorf("harness --health ended with %d", code)
	}
}

// as connects to a service with the certificate of another.
func (h *hosts) as(t *testing.T, who, service string) *grpc.ClientConn {
	t.Helper()
	return h.at(t, who, service, h.addresses[service])
}

// at connects to a service at an address with the certificate of another.
func (h *hosts) at(t *testing.T, who, service, address string) *grpc.ClientConn {
	t.Helper()
	m, err := mtls.Load(h.ca.Issue(who), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	between := rpc.Between{TLS: m, Want: mtls.Identity{Service: service}, CallTimeout: kagedtest.Limit}
	conn, err := grpc.NewClient(address, between.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A complete session runs with every service as if on its own host, over mTLS: an agent repairs a test, an issue is
// created and worked on, and the session continues after kill -9 of its holder. The certificate of one service allows
// no call of another service; a debugging certificate does, and the operator sees that in the audit record.
func TestASessionBetweenHosts(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Script(fakellm.Steps(append(repair(),
		fakellm.Step{fakellm.Tool("kaged.issue", `{"action":"transition","number":1,"to":"in_progress"}`)},
		fakellm.Step{fakellm.GotResult("in_progress"), fakellm.Say("Taken.")},
		fakellm.Step{fakellm.Say("Still here.")})...))
	h := startHosts(t, llm)
	dir := h.Project(t)
	s := kagedtest.Open(t, h.SignIn(t), dir)
	if outcome := s.Run(t, "fix the failing test"); outcome != "completed" {
		t.Fatalf("the run %s", outcome)
	}
	s.Contiguous(t)
	checkMessages(t, s)
	if out, err := goTest(t, dir); err != nil {
		t.Errorf("the test still fails:\n%s", out)
	}

	issues := "/api/v1/projects/" + s.Project + "/issues"
	kagedtest.Post[struct{ Number int64 }](t, s.Client, issues, map[string]any{"title": "Count emoji"})
	if outcome := s.Run(t, "take the issue"); outcome != "completed" {
		t.Errorf("with an issue: the run %s", outcome)
	}
	if got := kagedtest.Get[issueSeen](t, s.Client, issues+"/1"); got.Status != "in_progress" {
		t.Errorf("the issue is %s, want in_progress", got.Status)
	}
	h.strangers(t)
	h.debug(t, s)

	h.processes["session-manager"].Kill()
	<-h.processes["session-manager"].Done()
	h.restart(t, "session-manager")
	if outcome := s.Run(t, "and again"); outcome != "completed" {
		t.Errorf("after kill -9 of the holder: the run %s", outcome)
	}
	s.Contiguous(t)
	s.SameAgain(t)
	for _, name := range serviceNames {
		h.processes[name].Signal(syscall.SIGTERM)
		if _, code := h.processes[name].Rest(t); code != 0 {
			t.Errorf("%s ended with %d: %s", name, code, h.processes[name].Stderr.Tail(5))
		}
		if name == "gateway" {
			continue
		}
		if sockets, _ := filepath.Glob(filepath.Join(h.Dir, "data-"+name, "run", "*.sock")); len(sockets) > 0 {
			t.Errorf("%s had sockets: %v", name, sockets)
		}
	}
}

// strangers checks that a certificate of the deployment allows exactly the calls in the caller table.
func (h *hosts) strangers(t *testing.T) {
	t.Helper()
	tools := toolrunnerv1.NewToolRunnerServiceClient(h.as(t, "gateway", "tool-runner"))
	if _, err := tools.ListTools(t.Context(), &toolrunnerv1.ListToolsRequest{}); !errors.Is(err, fault.Forbidden) {
		t.Errorf("the gateway calls tool-runner: got %v, want forbidden", err)
	}
	operator := metadata.AppendToOutgoingContext(t.Context(), "kaged-user-id", "ada")
	sessions := sessionmanagerv1.NewSessionServiceClient(h.as(t, "tool-runner", "session-manager"))
	if _, err := sessions.GetSpend(operator, &apiv1.GetSpendRequest{}); !errors.Is(err, fault.Forbidden) {
		t.Errorf("tool-runner calls session-manager as an operator: got %v, want forbidden", err)
	}
	if _, err := net.Dial("unix", filepath.Join(h.Dir, "data-tool-runner", "run", "tool-runner.sock")); err == nil {
		t.Error("tool-runner has a socket beside its address")
	}
}

// debug checks that the debugging certificate allows every call, and that each call is in the operator's audit record.
func (h *hosts) debug(t *testing.T, s *kagedtest.Session) {
	t.Helper()
	conn := h.as(t, mtls.Debug, "session-manager")
	if list := reflect(t, conn); len(list) == 0 {
		t.Error("the debugging certificate sees no service")
	}
	me := kagedtest.Get[struct {
		UserID string `json:"user_id"`
	}](t, s.Client, "/api/v1/me")
	operator := metadata.AppendToOutgoingContext(t.Context(), "kaged-user-id", me.UserID)
	found, err := sessionmanagerv1.NewSessionServiceClient(conn).GetSession(operator, &apiv1.GetSessionRequest{Id: s.ID})
	if err != nil || found.GetSession().GetId() != s.ID {
		t.Fatalf("the debugging certificate asks for the session: got %v, %v", found, err)
	}
	var page struct {
		Items []struct {
			EventType string `json:"event_type"`
			Payload   struct{ Method, Certificate, Serial string }
		}
	}
	if err := s.Client.Do(t.Context(), http.MethodGet, "/api/v1/audit?event_type=debug.called", nil, &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 1 || !strings.HasSuffix(page.Items[0].Payload.Method, "/GetSession") ||
		page.Items[0].Payload.Serial == "" {
		t.Errorf("the audit record has %+v, want one call of GetSession", page.Items)
	}
}

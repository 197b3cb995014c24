package e2e_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// balancer passes connections to one of several gateways, and cuts them when that ends.
type balancer struct {
	listener net.Listener
	to       atomic.Pointer[string]
	work     sync.WaitGroup
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener}
	b.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.work.Go(func() { b.pass(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		b.work.Wait()
	})
	return b
}

func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

func (b *balancer) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", *b.to.Load())
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); to.Close(); from.Close() })
	both.Go(func() { _, _ = io.Copy(from, to); to.Close(); from.Close() })
	both.Wait()
}

// gateways are a constellation with two gateways behind a balancer, and a client that knows only that.
type gateways struct {
	*constellation
	*balancer
	client    *client.Client
	token     string
	addresses [2]string
	running   [2]*kagedtest.Process
}

func startGateways(t *testing.T, llm *fakellm.Server) *gateways {
	t.Helper()
	g := &gateways{balancer: newBalancer(t), addresses: [2]string{testkit.Address(), testkit.Address()}}
	g.constellation = startAlone(t, llm, "KAGED_UI_URL="+g.url(), "KAGED_LISTEN="+g.addresses[0])
	g.running[0] = g.processes["gateway"]
	g.begin(t, 1)
	g.to.Store(&g.addresses[0])
	signedIn := g.SignIn(t)
	g.token = kagedtest.Post[struct{ Token string }](t, signedIn, "/api/v1/tokens",
		map[string]any{"name": "gateways", "scope": "admin"}).Token
	g.client = kagedtest.Checked(t, client.New(g.url()).WithToken(g.token))
	t.Cleanup(g.client.Close)
	return g
}

// begin starts a gateway, and returns when it serves.
func (g *gateways) begin(t *testing.T, n int) {
	t.Helper()
	socket := filepath.Join(g.Dir, fmt.Sprintf("gateway-%d.sock", n))
	g.running[n] = kagedtest.Command(t, "gateway", append(append([]string{}, g.env...),
		"KAGED_LISTEN="+g.addresses[n], config.EnvName("services", "gateway", "listen")+"=unix:"+socket))
	conn, err := grpc.NewClient("unix:"+socket, rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	health := grpc_health_v1.NewHealthClient(conn)
	kagedtest.Eventually(t, "the gateway serves", func() bool {
		resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
}

// kill kills a gateway that the balancer uses, as kill -9 does, and lets the other one go on.
func (g *gateways) kill(t *testing.T, n int) {
	t.Helper()
	g.to.Store(&g.addresses[1-n])
	g.running[n].Kill()
	<-g.running[n].Done()
}

// A terminal that is open while its gateway is killed goes on at the other one, and again when that is killed too: no
// byte of the process is lost or doubled, and what is typed then arrives once.
func TestATerminalOutlivesItsGateways(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		if r.Turns() > 0 {
			return fakellm.Step{fakellm.Say("It runs.")}
		}
		return fakellm.Step{fakellm.Tool("shell.exec", `{"background":true,"terminal":true,"command":"./serve.sh"}`)}
	})
	g := startGateways(t, llm)
	dir := g.Project(t)
	file := kagedtest.Read(t, dir, ".kaged/project.yaml")
	kagedtest.Write(t, dir, ".kaged/project.yaml", strings.Replace(file, "shell.bash", "shell.*", 1))
	kagedtest.Write(t, dir, "serve.sh", "#!/bin/sh\nstty -echo\ni=0\nwhile [ ! -e stop ]; do i=$((i+1)); echo line-$i; "+
		"sleep 0.01; done\nread typed\necho typed-$typed\n")
	if err := os.Chmod(filepath.Join(dir, "serve.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := kagedtest.Open(t, g.client, dir)
	if outcome := s.Run(t, "start it"); outcome != "completed" {
		t.Fatalf("the run ended %s", outcome)
	}
	s.Socket.Close()
	list := kagedtest.Get[struct{ Processes []struct{ ID string } }](t, g.client, "/api/v1/sessions/"+s.ID+"/processes")
	if len(list.Processes) != 1 {
		t.Fatalf("there run %+v", list)
	}
	x, err := g.client.Terminal(t.Context(), s.ID, list.Processes[0].ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var shown strings.Builder
	// The stream goes away at least once after each kill, and may do so at other times. Output after that comes from the
	// gateway that lives, and only there can be typed.
	away, killed, gone, until := 0, 0, 0, 20
	for e, err := range x.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Position != nil && e.Position.GetMissing() > 0 {
			t.Errorf("%d bytes are missing", e.Position.GetMissing())
		}
		if e.Away {
			away++
		}
		shown.Write(e.Output)
		if lines := strings.Count(shown.String(), "\n"); lines > until && away >= gone && len(e.Output) > 0 {
			until, gone = lines+60, away+1
			switch killed++; killed {
			case 1:
				g.kill(t, 0)
			case 2:
				g.begin(t, 0)
				g.kill(t, 1)
			case 3:
				if _, err := x.Write([]byte("hello\n")); err != nil {
					t.Fatalf("typing: %v", err)
				}
				kagedtest.Write(t, dir, "stop", "")
			}
		}
		if e.Ended != nil {
			break
		}
	}
	var want strings.Builder
	for n := 1; n < strings.Count(shown.String(), "\n"); n++ {
		fmt.Fprintf(&want, "line-%d\r\n", n)
	}
	want.WriteString("typed-hello\r\n")
	if shown.String() != want.String() || away < 2 {
		t.Errorf("away %d times, shown\n%s", away, shown.String())
	}
}

// kaged session attach at a terminal goes on at another gateway when its own is killed in the middle of an answer: the
// text is shown once and whole.
func TestAttachOutlivesItsGateway(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	middle := fakellm.NewGate()
	llm.Handle(func(*fakellm.Request) fakellm.Step {
		return fakellm.Step{fakellm.Say("First half,"), fakellm.Wait(middle), fakellm.Say(" second half.\n")}
	})
	g := startGateways(t, llm)
	s := kagedtest.Create(t, g.client, g.Project(t))
	env := kagedtest.Environ("KAGED_TOKEN=" + g.token)
	x := kagedtest.OnTerminal(t, "kaged", env, "session", "attach", s.ID, "--url", g.url())
	awaits(t, x, "attached to")
	kagedtest.Post[struct{}](t, g.client, "/api/v1/sessions/"+s.ID+"/messages", map[string]any{"content": "say"})
	awaits(t, x, "First half,")
	g.kill(t, 0)
	middle.Open()
	awaits(t, x, "second half.")
	kagedtest.Eventually(t, "the run is over", func() bool {
		return kagedtest.Get[struct{ State string }](t, g.client, "/api/v1/sessions/"+s.ID).State == "idle"
	})
	x.Type(t, "\x03")
	if code := x.Wait(t); code != 0 || strings.Count(x.Shown.String(), "First half,") != 1 ||
		strings.Count(x.Shown.String(), "second half.") != 1 {
		t.Errorf("it ended with %d and showed %q", code, x.Shown.String())
	}
}

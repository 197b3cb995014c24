package sessionmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
)

// childVariable makes the test binary run a session-manager that a test can kill; it holds the child's addresses.
const childVariable = "SESSION_MANAGER_CHILD"

// child has the addresses that a session-manager in its own process needs.
type child struct {
	Node, Owner, App, NATS, Config string
	// Around is the socket of the harness and the tool-runner, Listen the child's own.
	Around, Listen string
}

func TestMain(m *testing.M) {
	if places := os.Getenv(childVariable); places != "" {
		var c child
		if err := json.Unmarshal([]byte(places), &c); err == nil {
			err = c.run()
			slog.Error("the child ended", "error", err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// run serves until the process is killed.
func (c child) run() error {
	around, err := grpc.NewClient("unix:"+c.Around, rpc.DialOptions()...)
	if err != nil {
		return err
	}
	cfg := DefaultConfig()
	quick(&cfg)
	cfg.CancelGrace = config.Duration(time.Hour) // only the kill ends a run
	log := slog.New(slog.DiscardHandler)
	service, err := New(cfg, Deps{
		Log: log, Version: "test", Self: lease.Holder{Instance: ident.New(), Node: c.Node, Address: "unix:" + c.Listen},
		DatabaseURL: c.Owner, AppURL: c.App, NATS: bus.Config{URL: c.NATS, Name: c.Node}, Harness: around,
		ToolRunner: func(string) (grpc.ClientConnInterface, error) { return around, nil },
		DialAddress: func(string) (grpc.ClientConnInterface, error) {
			return nil, errors.New("no other node")
		}, LocalConfig: c.Config,
	})
	if err != nil {
		return err
	}
	server := grpc.NewServer(rpc.ServerOptions(log)...)
	service.Register(server)
	listener, err := net.Listen("unix", c.Listen)
	if err != nil {
		return err
	}
	go server.Serve(listener)
	return service.Run(context.Background())
}

// network moves the world's NATS to a TCP port, so that several processes can use it.
func (w *world) network(t *testing.T) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	w.bus = bus.Config{URL: server.URL()}
	conn, err := bus.Connect(t.Context(), w.bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if w.frames, err = bus.OpenFrames(t.Context(), conn, bus.FramesConfig{}); err != nil {
		t.Fatal(err)
	}
}

// process is a session-manager in its own process.
type process struct{ *exec.Cmd }

func (p process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// spawn starts a session-manager in its own process, with additions to its environment, waits until it serves, and
// returns a client.
func (w *world) spawn(t *testing.T, name string, env ...string) (*node, process) {
	t.Helper()
	n, p := w.launch(t, name, env...)
	eventually(t, "the child serves", func() error {
		_, err := n.Projects.ListProjects(as(t, "ada"), &apiv1.ListProjectsRequest{})
		return err
	})
	return n, p
}

// launch is spawn without waiting.
func (w *world) launch(t *testing.T, name string, env ...string) (*node, process) {
	t.Helper()
	dir := t.TempDir()
	c := child{
		Node: name, Owner: w.owner, App: w.app, NATS: w.bus.URL, Config: w.config,
		Around: filepath.Join(dir, "around"), Listen: filepath.Join(dir, "listen"),
	}
	w.around(t, c.Around)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childVariable+"="+string(mustJSON(c))), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process{cmd}.kill)
	conn, err := grpc.NewClient("unix:"+c.Listen, rpc.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n := &node{w: w, address: "unix:" + c.Listen, conn: conn}
	n.clients()
	return n, process{cmd}
}

// around serves the harness and the tool-runner on a socket.
func (w *world) around(t *testing.T, path string) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(rpc.ServerOptions(slog.New(slog.DiscardHandler))...)
	harnessv1.RegisterHarnessServiceServer(server, w.harness)
	toolrunnerv1.RegisterToolRunnerServiceServer(server, w.tools)
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
}

// If the process that holds sessions is killed, a process on another node takes over within the lease's lifetime:
// stored steps are kept, each run ends once, clients find every frame, and the sessions accept messages again.
func TestFailover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.network(t)
	first, p := w.spawn(t, "one")
	second := w.start("two")
	reached := make(chan string, 8)
	stay := func(name string) func(p *play) {
		return func(p *play) {
			p.model()
			p.delta("Let me see. ")
			switch name {
			case "begun":
			case "turn stored":
				p.turn(1, true, call("c1", "file.write", `{}`))
			case "results stored":
				p.turn(1, true, call("c1", "file.write", `{}`))
				p.tool(1, "c1", "file.write", `{}`, "x")
				p.done(1)
				p.delta("And then ")
			}
			reached <- p.start.GetSessionId()
			p.hang()
		}
	}
	sessions, runs := map[string]string{}, map[string]string{}
	steps := map[string]int{"begun": 0, "turn stored": 1, "results stored": 1}
	for name := range steps {
		s := first.session("ada")
		w.harness.expect(stay(name))
		sessions[name], runs[name] = s, first.post("ada", s, "Go.").GetRunId()
		if got := <-reached; got != s {
			t.Fatalf("%s reached instead of %s", got, s)
		}
		w.await(s, "output", "message.delta")
	}
	p.kill()
	for name, s := range sessions {
		run := second.run("ada", s, runs[name])
		if run.GetOutcome() != "failed" || run.GetError().GetCode().String() != "ERROR_CODE_INTERRUPTED" ||
			len(run.GetSteps()) != steps[name] {
			t.Errorf("%s: run = %v", name, run)
		}
		events := w.await(s, "events", `session.state {"state":"idle"}`)
		if count(events, "run.ended") != 1 {
			t.Errorf("%s: events = %q", name, events)
		}
		output := w.await(s, "output", "message.end")
		if count(output, "message.start") != 1 || count(output, "message.end") != 1 {
			t.Errorf("%s: output = %q", name, kinds(output))
		}
	}
	for name, s := range sessions {
		hold := second.attach("ada", s, false)
		if hold.seq["output"] != int64(len(w.channel(s, "output"))) {
			t.Errorf("%s: server_seq = %v", name, hold.seq)
		}
		if got := second.run("ada", s, second.post("ada", s, "Again.").GetRunId()); got.GetOutcome() != "completed" {
			t.Errorf("%s: the next run = %v", name, got)
		}
		w.await(s, "events", `session.state {"state":"idle"}`)
	}
}

// A node that was killed and starts again takes its sessions back at once, without waiting for its leases to
// expire.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.network(t)
	first, p := w.spawn(t, "one")
	s := first.session("ada")
	begun := make(chan struct{})
	w.harness.expect(func(p *play) {
		p.model()
		close(begun)
		p.hang()
	})
	posted := first.post("ada", s, "Go.")
	<-begun
	p.kill()
	second := w.start("one", func(c *Config) {
		c.LeaseTTL = config.Duration(time.Hour)
		c.SweepInterval = config.Duration(time.Hour)
	})
	run := second.run("ada", s, posted.GetRunId())
	if run.GetOutcome() != "failed" {
		t.Errorf("run = %v", run)
	}
	if got := w.await(s, "events", `session.state {"state":"idle"}`); len(got) != 4 ||
		!strings.HasPrefix(got[2], "run.ended") {
		t.Errorf("events = %q", got)
	}
	// The numbers continue where the first instance stopped; the last frame may not be acknowledged yet.
	if n := second.attach("ada", s, false).seq["events"]; n < 3 || n > 4 {
		t.Errorf("server_seq of events = %d", n)
	}
	if n := len(w.harness.began); n != 1 {
		t.Error(fmt.Sprint(n, " runs began: looking spent money"))
	}
}

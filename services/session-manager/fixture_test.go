package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/idle"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
)

// deadline bounds the waits of a test; reaching it is a failure.
const deadline = 60 * time.Second

// world is the environment of session-managers: stores, a harness and a tool-runner controlled by the test, and a
// project on disk.
type world struct {
	t          testing.TB
	owner, app string
	nats       *bustest.Private
	bus        bus.Config // the session-managers' connection to NATS
	harness    *fakeHarness
	tools      *toolRunner
	elsewhere  map[string]*toolRunner // the tool-runners of workspaces other than the default one
	project    string                 // the project's folder
	config     string                 // local.toml
	frames     *bus.Frames
	idleHooks  []idle.Hook

	mu    sync.Mutex // guards the map
	nodes map[string]*node
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, nats: bustest.Server(t), harness: newHarness(t), nodes: map[string]*node{}}
	w.owner, w.app = pgtest.Migrated(t, pgtest.Schema(Module.Schema))
	w.project = t.TempDir()
	w.config = filepath.Join(t.TempDir(), "local.toml")
	w.tools = &toolRunner{}
	w.primary()
	w.write("prompt.md", "Be kind.")
	w.configure(`[models]
smart = "fake:one"
[providers.fake]
driver = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
[limits]
sessions_per_project = 1000
sessions_per_operator = 1000
`)
	w.bus = bus.Config{InProcess: w.nats}
	w.frames = w.nats.Frames(t, bus.FramesConfig{})
	return w
}

func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.project, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// onCrashResume is the project setting that resumes interrupted runs.
const onCrashResume = "on_crash: resume"

// primary writes the project file: one agent, with the required lines and the given ones.
func (w *world) primary(lines ...string) {
	w.t.Helper()
	yaml := "version: 1\nproject: music\nprimary:\n  model: smart\n  system_prompt: ./prompt.md\n"
	for _, line := range lines {
		yaml += "  " + line + "\n"
	}
	w.write(dsl.ProjectFile, yaml)
}

func (w *world) configure(content string) {
	w.t.Helper()
	if err := os.WriteFile(w.config, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// node is one running session-manager.
type node struct {
	*Service
	w        *world
	address  string
	conn     *grpc.ClientConn
	Sessions sessionmanagerv1.SessionServiceClient
	Attach   sessionmanagerv1.AttachServiceClient
	Terminal sessionmanagerv1.TerminalServiceClient
	Projects sessionmanagerv1.ProjectServiceClient
	Audit    sessionmanagerv1.AuditServiceClient
	stop     context.CancelFunc
	ended    chan error
	server   *grpc.Server
}

// quick shortens intervals of seconds to milliseconds.
func quick(c *Config) {
	c.LeaseTTL = config.Duration(600 * time.Millisecond)
	c.SweepInterval = config.Duration(50 * time.Millisecond)
	c.UnloadAfter = config.Duration(100 * time.Millisecond)
	c.HarnessTimeout = config.Duration(2 * time.Second)
	c.CancelGrace = config.Duration(500 * time.Millisecond)
	c.SeqInterval = config.Duration(50 * time.Millisecond)
	c.AttachWait = config.Duration(20 * time.Millisecond)
	c.SettleTimeout = config.Duration(2 * time.Second)
}

// start starts a session-manager on a node, whose name stays the same over restarts.
func (w *world) start(name string, change ...func(*Config)) *node {
	w.t.Helper()
	cfg := DefaultConfig()
	for _, f := range append([]func(*Config){quick}, change...) {
		f(&cfg)
	}
	n := &node{w: w, address: "mem:" + name, ended: make(chan error, 1)}
	service, err := New(cfg, Deps{
		Log: w.log(name), Version: "test", Self: lease.Holder{Instance: ident.New(), Node: name, Address: n.address},
		DatabaseURL: w.owner, AppURL: w.app, NATS: w.bus,
		Harness: w.harness.conn(w.t), Issue: issuesTo9(w.t), ToolRunner: w.workspaces(), DialAddress: w.dial,
		LocalConfig: w.config, IdleHooks: w.idleHooks,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n.Service = service
	n.conn, n.server = serve(w.t, service.Register)
	n.clients()
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() { n.ended <- service.Run(ctx) }()
	w.t.Cleanup(n.Stop)
	eventually(w.t, "the service is ready", func() error { return service.Ready(w.t.Context()) })
	w.mu.Lock()
	w.nodes[n.address] = n
	w.mu.Unlock()
	return n
}

func (n *node) clients() {
	n.Sessions = sessionmanagerv1.NewSessionServiceClient(n.conn)
	n.Attach = sessionmanagerv1.NewAttachServiceClient(n.conn)
	n.Terminal = sessionmanagerv1.NewTerminalServiceClient(n.conn)
	n.Projects = sessionmanagerv1.NewProjectServiceClient(n.conn)
	n.Audit = sessionmanagerv1.NewAuditServiceClient(n.conn)
}

func (w *world) log(name string) *slog.Logger {
	if os.Getenv("SESSION_MANAGER_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", name)
	}
	return slog.New(slog.DiscardHandler)
}

// workspaces returns the connections to the tool-runners. An unknown workspace has none.
func (w *world) workspaces() func(string) (grpc.ClientConnInterface, error) {
	conns := map[string]*grpc.ClientConn{"": w.tools.conn(w.t)}
	for name, tools := range w.elsewhere {
		conns[name] = tools.conn(w.t)
	}
	return func(workspace string) (grpc.ClientConnInterface, error) {
		if conn := conns[workspace]; conn != nil {
			return conn, nil
		}
		return nil, fmt.Errorf("there is no workspace %q", workspace)
	}
}

func (w *world) dial(address string) (grpc.ClientConnInterface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[address]; n != nil {
		return n.conn, nil
	}
	return nil, fmt.Errorf("no node at %s", address)
}

// Stop drains and stops the node, and waits. A second Stop is harmless.
func (n *node) Stop() {
	n.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	n.Drain(ctx)
	cancel()
	n.halt()
}

// halt ends the service without draining it.
func (n *node) halt() {
	n.w.t.Helper()
	n.stop()
	select {
	case err := <-n.ended:
		n.ended <- nil
		if err != nil {
			n.w.t.Errorf("the service ended with %v", err)
		}
	case <-time.After(deadline):
		n.w.t.Fatal("the service does not stop")
	}
	n.server.Stop()
}

// as returns a context whose caller is an operator.
func as(t testing.TB, user string) context.Context {
	return ident.WithCaller(t.Context(), ident.Caller{UserID: user, RequestID: ident.New()})
}

// session loads the project and creates a session. It retries calls that are refused as unavailable, because a busy
// machine can look like a stalled database in a test with a short limit.
func (n *node) session(user string) (id string) {
	t := n.w.t
	t.Helper()
	eventually(t, "a session of the project", func() error {
		_, err := n.Projects.LoadProject(as(t, user), &apiv1.LoadProjectRequest{Path: n.w.project})
		var created *apiv1.CreateSessionResponse
		if err == nil {
			created, err = n.Sessions.CreateSession(as(t, user), &apiv1.CreateSessionRequest{ProjectId: "music"})
		}
		if err != nil && !errors.Is(err, fault.Unavailable) {
			t.Fatalf("creating a session: %v", err)
		}
		id = created.GetId()
		return err
	})
	return id
}

// post posts a message.
func (n *node) post(user, session, content string) *apiv1.PostMessageResponse {
	n.w.t.Helper()
	posted, err := n.Sessions.PostMessage(as(n.w.t, user),
		&apiv1.PostMessageRequest{SessionId: session, Content: &content})
	if err != nil {
		n.w.t.Fatalf("posting: %v", err)
	}
	return posted
}

// run waits until a run is over and returns it.
func (n *node) run(user, session, run string) *apiv1.Run {
	n.w.t.Helper()
	var got *apiv1.Run
	eventually(n.w.t, "the run is over", func() error {
		resp, err := n.Sessions.GetRun(as(n.w.t, user), &apiv1.GetRunRequest{SessionId: session, RunId: run})
		if err != nil {
			return err
		}
		if got = resp.GetRun(); got.Outcome == nil {
			return fmt.Errorf("it is %s", got.GetState())
		}
		return nil
	})
	return got
}

func (n *node) get(user, session string) *apiv1.Session {
	n.w.t.Helper()
	resp, err := n.Sessions.GetSession(as(n.w.t, user), &apiv1.GetSessionRequest{Id: session})
	if err != nil {
		n.w.t.Fatalf("getting the session: %v", err)
	}
	return resp.GetSession()
}

func (n *node) messages(user, session string) []*apiv1.SessionMessage {
	n.w.t.Helper()
	var out []*apiv1.SessionMessage
	for req := (&apiv1.ListMessagesRequest{SessionId: session}); ; {
		resp, err := n.Sessions.ListMessages(as(n.w.t, user), req)
		if err != nil {
			n.w.t.Fatalf("listing messages: %v", err)
		}
		out = append(out, resp.GetItems()...)
		if !resp.GetHasMore() {
			return out
		}
		req.Cursor = resp.GetNextCursor()
	}
}

// channel returns a channel's frames without their envelope. It fails the test unless they are numbered 1, 2, 3 and
// so on.
func (w *world) channel(session, channel string) []string {
	w.t.Helper()
	out, err := w.tryChannel(session, channel)
	if err != nil {
		w.t.Fatalf("replaying %s: %v", channel, err)
	}
	return out
}

// tryChannel is channel, but returns the error of an unreachable stream.
func (w *world) tryChannel(session, channel string) (out []string, err error) {
	w.t.Helper()
	next := int64(1)
	for batch, err := range w.frames.Replay(w.t.Context(), session, channel, 1, 0) {
		if err != nil {
			return nil, err
		}
		for seq, frame := range batch.Frames(next) {
			head := fmt.Sprintf(`{"channel":%q,"seq":%d,"type":"`, channel, next)
			rest, ok := strings.CutPrefix(string(frame), head)
			if seq != next || !ok {
				w.t.Fatalf("frame %d of %s is %s", next, channel, frame)
			}
			kind, payload, _ := strings.Cut(rest, `","payload":`)
			out = append(out, kind+" "+strings.TrimSuffix(payload, "}"))
			next++
		}
	}
	return out, nil
}

// await waits until a channel's last frame begins with last, and returns all its frames.
func (w *world) await(session, channel, last string) []string {
	w.t.Helper()
	var got []string
	eventually(w.t, channel+" ends with "+last, func() (err error) {
		got, err = w.tryChannel(session, channel)
		if err == nil && (len(got) == 0 || !strings.HasPrefix(got[len(got)-1], last)) {
			err = fmt.Errorf("it has %q", kinds(got))
		}
		return err
	})
	return got
}

// kinds returns the types of frames.
func kinds(list []string) []string {
	out := make([]string, len(list))
	for i, f := range list {
		out[i], _, _ = strings.Cut(f, " ")
	}
	return out
}

// eventually calls ask until it succeeds.
func eventually(t testing.TB, what string, ask func() error) {
	t.Helper()
	end := time.Now().Add(deadline)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: never: %v", what, err)
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// serve serves in memory until the test ends, and returns a connection.
func serve(t testing.TB, register func(grpc.ServiceRegistrar)) (*grpc.ClientConn, *grpc.Server) {
	t.Helper()
	listener := bufconn.Listen(256 << 10)
	server := grpc.NewServer(rpc.ServerOptions(slog.New(slog.DiscardHandler))...)
	register(server)
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	opts := append(rpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:///memory", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-done
	})
	return conn, server
}

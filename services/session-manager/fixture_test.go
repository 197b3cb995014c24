package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/pkg/testkit/pgtest"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
	"kaged.dev/services/session-manager/internal/core/lease"
)

// deadline is how long a test waits for what must happen; one that reaches it has found a defect.
const deadline = 20 * time.Second

// world is everything around session-managers: stores, a harness and a tool-runner that a test plays, a project on disk.
type world struct {
	t          testing.TB
	owner, app string
	nats       *bustest.Private
	bus        bus.Config // how session-managers reach NATS
	harness    *harness
	tools      *toolRunner
	project    string // the project's folder
	config     string // local.toml
	frames     *bus.Frames

	mu    sync.Mutex // guards the map
	nodes map[string]*node
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, nats: bustest.Server(t), harness: newHarness(t), nodes: map[string]*node{}}
	w.owner, w.app = pgtest.URLs(t)
	w.project = t.TempDir()
	w.config = filepath.Join(t.TempDir(), "local.toml")
	w.tools = &toolRunner{}
	w.write(".kaged/project.yaml", "project: music")
	w.write("prompt.md", "Be kind.")
	w.configure(`[models]
smart = "fake:one"
[providers.fake]
driver = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
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
	Projects sessionmanagerv1.ProjectServiceClient
	Audit    sessionmanagerv1.AuditServiceClient
	stop     context.CancelFunc
	ended    chan error
	server   *grpc.Server
}

// quick are settings under which what takes seconds in life takes milliseconds.
func quick(c *Config) {
	c.LeaseTTL = config.Duration(600 * time.Millisecond)
	c.SweepInterval = config.Duration(50 * time.Millisecond)
	c.UnloadAfter = config.Duration(100 * time.Millisecond)
	c.HarnessTimeout = config.Duration(2 * time.Second)
	c.CancelGrace = config.Duration(500 * time.Millisecond)
	c.SeqInterval = config.Duration(50 * time.Millisecond)
	c.SettleTimeout = config.Duration(2 * time.Second)
}

// start starts a session-manager on a node, which stays the same over restarts.
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
		Harness: w.harness.conn(w.t), ToolRunner: w.tools.conn(w.t), DialAddress: w.dial, LocalConfig: w.config,
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
	n.Projects = sessionmanagerv1.NewProjectServiceClient(n.conn)
	n.Audit = sessionmanagerv1.NewAuditServiceClient(n.conn)
}

func (w *world) log(name string) *slog.Logger {
	if os.Getenv("SESSION_MANAGER_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", name)
	}
	return slog.New(slog.DiscardHandler)
}

func (w *world) dial(address string) (grpc.ClientConnInterface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[address]; n != nil {
		return n.conn, nil
	}
	return nil, fmt.Errorf("nobody at %s", address)
}

// Stop stops the node as its host would and waits. A second Stop is harmless.
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

// session loads the project and creates a session.
func (n *node) session(user string) string {
	t := n.w.t
	t.Helper()
	if _, err := n.Projects.LoadProject(as(t, user), &sessionmanagerv1.LoadProjectRequest{Path: n.w.project}); err != nil {
		t.Fatalf("loading the project: %v", err)
	}
	created, err := n.Sessions.CreateSession(as(t, user), &sessionmanagerv1.CreateSessionRequest{ProjectId: "music"})
	if err != nil {
		t.Fatalf("creating a session: %v", err)
	}
	return created.GetId()
}

// post posts a message.
func (n *node) post(user, session, content string) *sessionmanagerv1.PostMessageResponse {
	n.w.t.Helper()
	posted, err := n.Sessions.PostMessage(as(n.w.t, user), &sessionmanagerv1.PostMessageRequest{SessionId: session, Content: &content})
	if err != nil {
		n.w.t.Fatalf("posting: %v", err)
	}
	return posted
}

// ended waits until a run is over and returns it.
func (n *node) run(user, session, run string) *sessionmanagerv1.Run {
	n.w.t.Helper()
	var got *sessionmanagerv1.Run
	eventually(n.w.t, "the run is over", func() error {
		resp, err := n.Sessions.GetRun(as(n.w.t, user), &sessionmanagerv1.GetRunRequest{SessionId: session, RunId: run})
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

func (n *node) get(user, session string) *sessionmanagerv1.Session {
	n.w.t.Helper()
	resp, err := n.Sessions.GetSession(as(n.w.t, user), &sessionmanagerv1.GetSessionRequest{Id: session})
	if err != nil {
		n.w.t.Fatalf("getting the session: %v", err)
	}
	return resp.GetSession()
}

func (n *node) messages(user, session string) []*sessionmanagerv1.SessionMessage {
	n.w.t.Helper()
	var out []*sessionmanagerv1.SessionMessage
	for req := (&sessionmanagerv1.ListMessagesRequest{SessionId: session}); ; {
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

// channel returns a channel's frames without their envelope, and fails if their numbers are not 1, 2, 3 and so on.
func (w *world) channel(session, channel string) []string {
	w.t.Helper()
	out, err := w.tryChannel(session, channel)
	if err != nil {
		w.t.Fatalf("replaying %s: %v", channel, err)
	}
	return out
}

// tryChannel is channel where the stream may be away.
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

// await waits until a channel's last frame is of a type, and returns all its frames.
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

// eventually asks until there is no error any more.
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

// serve serves in memory until the test ends.
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

// toolRunner reads projects and remembers which sessions it was told have ended.
type toolRunner struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	mu    sync.Mutex // guards the list
	ended []string
}

func (r *toolRunner) conn(t testing.TB) *grpc.ClientConn {
	conn, _ := serve(t, func(s grpc.ServiceRegistrar) { toolrunnerv1.RegisterToolRunnerServiceServer(s, r) })
	return conn
}

func (r *toolRunner) ReadProject(_ context.Context, req *toolrunnerv1.ReadProjectRequest) (*toolrunnerv1.ReadProjectResponse, error) {
	resp := &toolrunnerv1.ReadProjectResponse{Root: req.GetRoot()}
	for _, p := range req.GetPaths() {
		content, err := os.ReadFile(filepath.Join(req.GetRoot(), p))
		if err != nil {
			resp.Files = append(resp.Files, &toolrunnerv1.ProjectFile{Path: p, State: toolrunnerv1.FileState_FILE_STATE_MISSING})
			continue
		}
		resp.Files = append(resp.Files, &toolrunnerv1.ProjectFile{
			Path: p, State: toolrunnerv1.FileState_FILE_STATE_FOUND, Content: content, Sha256: sum(content),
		})
	}
	return resp, nil
}

func (r *toolRunner) EndSession(_ context.Context, req *toolrunnerv1.EndSessionRequest) (*toolrunnerv1.EndSessionResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, req.GetSessionId())
	return &toolrunnerv1.EndSessionResponse{}, nil
}

// harness compiles every project file to one agent and plays its runs as the test says.
type harness struct {
	harnessv1.UnimplementedHarnessServiceServer
	t testing.TB
	// root is the agent that projects compile to.
	root *harnessv1.AgentNode

	mu    sync.Mutex // guards the fields below
	plays []func(*play)
	began chan *play
}

func newHarness(t testing.TB) *harness {
	return &harness{t: t, began: make(chan *play, 256), root: &harnessv1.AgentNode{
		Key: "primary", Path: "primary", Model: "smart", PromptPath: "prompt.md", IncludeToolResultsInContext: true,
	}}
}

func (h *harness) conn(t testing.TB) *grpc.ClientConn {
	conn, _ := serve(t, func(s grpc.ServiceRegistrar) { harnessv1.RegisterHarnessServiceServer(s, h) })
	return conn
}

// expect says how the next run goes. Runs that nothing is said about say hello.
func (h *harness) expect(plays ...func(*play)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plays = append(h.plays, plays...)
}

func (h *harness) Compile(_ context.Context, req *harnessv1.CompileRequest) (*harnessv1.CompileResponse, error) {
	if len(req.GetFiles()) < 2 {
		return &harnessv1.CompileResponse{Wanted: []string{h.root.GetPromptPath()}}, nil
	}
	name := strings.TrimSpace(strings.TrimPrefix(string(req.GetFiles()[0].GetContent()), "project:"))
	ref := func(name, by string) []*harnessv1.Reference {
		return []*harnessv1.Reference{{Name: name, UsedBy: []string{by}, Present: true}}
	}
	return &harnessv1.CompileResponse{
		Compiled: &harnessv1.CompiledProject{Project: name, Version: 1, Root: h.root},
		Aliases:  ref(h.root.GetModel(), "primary"), Prompts: ref(h.root.GetPromptPath(), "primary.system_prompt"),
	}, nil
}

// Run takes the start and the history in, and then plays.
func (h *harness) Run(stream grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error {
	p := &play{stream: stream, stored: make(chan *harnessv1.StepStored, 64), cancelled: make(chan string, 1)}
	for p.begun = false; !p.begun; {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		switch r := req.GetRequest().(type) {
		case *harnessv1.RunRequest_Start:
			p.start = r.Start
		case *harnessv1.RunRequest_History:
			p.history = append(p.history, r.History.GetMessages()...)
		case *harnessv1.RunRequest_Begin:
			p.begun = true
		}
	}
	h.mu.Lock()
	act := sayHello
	if len(h.plays) > 0 {
		act, h.plays = h.plays[0], h.plays[1:]
	}
	h.mu.Unlock()
	h.began <- p
	go p.listen() // until the stream ends
	return p.act(act)
}

// next returns the next run that begins.
func (h *harness) next() *play {
	h.t.Helper()
	select {
	case p := <-h.began:
		return p
	case <-time.After(deadline):
		h.t.Fatal("no run begins")
		return nil
	}
}

// play is a run as the harness sees it.
type play struct {
	stream    grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]
	start     *harnessv1.RunStart
	history   []*harnessv1.Message
	begun     bool
	stored    chan *harnessv1.StepStored
	cancelled chan string
}

func (p *play) listen() {
	for {
		req, err := p.stream.Recv()
		if err != nil {
			return
		}
		if s := req.GetStored(); s != nil {
			p.stored <- s
		}
		if c := req.GetCancel(); c != nil {
			p.cancelled <- c.GetReason()
		}
	}
}

// errGone ends a play whose caller went away.
var errGone = errors.New("gone")

// act plays, and ends when the caller goes away wherever the play stands.
func (p *play) act(f func(*play)) (err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errGone:
			err = p.stream.Context().Err()
		case errCrash, errRefused, errAway:
			err = r.(error)
		default:
			panic(r)
		}
	}()
	f(p)
	return nil
}

// errCrash is what the stream of a harness that dies looks like from its end.
var errCrash = io.ErrUnexpectedEOF

// What a harness may say instead of an end.
var (
	errRefused error = fault.New(fault.PayloadTooLarge, "The conversation is too large.")
	errAway    error = fault.New(fault.Unavailable, "The harness stops.")
)

func (p *play) crash() { panic(errCrash) }

func (p *play) send(ev *harnessv1.RunEvent) {
	if p.stream.Send(ev) != nil {
		panic(errGone)
	}
}

// awaitStored waits until a half of a step is stored.
func (p *play) awaitStored(step int32, part harnessv1.StepPart) *harnessv1.StepStored {
	select {
	case s := <-p.stored:
		if s.GetStep() != step || s.GetPart() != part {
			panic(fmt.Sprintf("stored %v", s))
		}
		return s
	case <-p.stream.Context().Done():
		panic(errGone)
	}
}

// hang waits until the caller cancels or goes away, and returns the reason.
func (p *play) hang() string {
	select {
	case reason := <-p.cancelled:
		return reason
	case <-p.stream.Context().Done():
		panic(errGone)
	}
}

func (p *play) model() {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_MessageStart{MessageStart: &harnessv1.MessageStart{
		Provider: "fake", Model: "one", Driver: "openai-chat", StartedAt: 1700000000000,
	}}})
}

func (p *play) delta(text string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Delta{Delta: &harnessv1.Delta{Kind: harnessv1.DeltaKind_DELTA_KIND_TEXT, Text: text}}})
}

func text(s string) *harnessv1.Block {
	return &harnessv1.Block{Block: &harnessv1.Block_Text{Text: &harnessv1.Text{Text: s}}}
}

func call(id, name, input string) *harnessv1.Block {
	return &harnessv1.Block{Block: &harnessv1.Block_ToolCall{ToolCall: &harnessv1.ToolCall{Id: id, Name: name, Input: input}}}
}

// turn reports a turn; with wait it waits until it is stored.
func (p *play) turn(step int32, wait bool, blocks ...*harnessv1.Block) *harnessv1.StepStored {
	stop := harnessv1.StopReason_STOP_REASON_STOP
	for _, b := range blocks {
		if b.GetToolCall() != nil {
			stop = harnessv1.StopReason_STOP_REASON_TOOL_USE
		}
	}
	ttft := 12.0
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Turn{Turn: &harnessv1.Turn{
		Step: step, Blocks: blocks, StopReason: stop, Usage: &harnessv1.Usage{Input: 10, Output: 5, CacheRead: 2},
		Stats:    &harnessv1.Stats{TtftMs: &ttft, DurationMs: 100, Tps: 50, Cost: &harnessv1.Cost{Input: 0.5, Output: 0.25, Total: 0.75}},
		Provider: "fake", Model: "one", Wait: wait,
	}}})
	if !wait {
		return nil
	}
	return p.awaitStored(step, harnessv1.StepPart_STEP_PART_TURN)
}

// tool reports a call and its result.
func (p *play) tool(step int32, id, name, input, output string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolCall{ToolCall: &harnessv1.ToolCallStarted{
		Step: step, Call: &harnessv1.ToolCall{Id: id, Name: name, Input: input},
	}}})
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolResult{ToolResult: &harnessv1.ToolCallFinished{
		Step: step, Result: &harnessv1.ToolResult{ToolCallId: id, Name: name, Content: output}, Input: input, DurationMs: 3,
		Audit: auditRecords("tool.called"),
	}}})
}

// done reports the end of a step and waits until its results are stored.
func (p *play) done(step int32) *harnessv1.StepStored {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_StepDone{StepDone: &harnessv1.StepDone{Step: step}}})
	return p.awaitStored(step, harnessv1.StepPart_STEP_PART_RESULTS)
}

func (p *play) finish(f *harnessv1.RunFinished) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Finished{Finished: f}})
}

func (p *play) complete(steps int32) {
	ttft := 12.0
	p.finish(&harnessv1.RunFinished{
		Outcome: harnessv1.Outcome_OUTCOME_COMPLETED, StopReason: harnessv1.StopReason_STOP_REASON_STOP, Steps: steps,
		Usage: &harnessv1.Usage{Input: 10 * int64(steps), Output: 5 * int64(steps), CacheRead: 2 * int64(steps)},
		Stats: &harnessv1.Stats{TtftMs: &ttft, DurationMs: 100 * float64(steps), Tps: 50,
			Cost: &harnessv1.Cost{Total: 0.75 * float64(steps)}},
	})
}

func sayHello(p *play) {
	p.model()
	p.delta("Hel")
	p.delta("lo")
	p.turn(1, false, text("Hello"))
	p.complete(1)
}

package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm/llmproto"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// toolRunner reads projects and records the ended sessions that it is told of.
type toolRunner struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	mu    sync.Mutex // guards the fields below
	ended []string
	calls []string // the received calls, such as "read", "ended SESSION" and "listed SESSION"
	away  bool     // refuse calls as unavailable
	// slow holds the next reading of a project: it sends one value when it begins, and waits for another to go on.
	slow chan struct{}
	// runs are the sessions with a running command: each has a process and a cage.
	runs []string
	// late are the events for each watcher; acknowledged are the ids that watchers acknowledged.
	late         []*toolrunnerv1.WorkspaceEvent
	acknowledged []string
}

// WatchWorkspace sends the late events to each watcher, and records its acknowledgements.
func (r *toolRunner) WatchWorkspace(
	stream grpc.BidiStreamingServer[toolrunnerv1.WatchWorkspaceRequest, toolrunnerv1.WorkspaceEvent],
) error {
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	for _, e := range late {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.acknowledged = append(r.acknowledged, req.GetAcknowledged())
		r.mu.Unlock()
	}
}

func (r *toolRunner) conn(t testing.TB) *grpc.ClientConn {
	conn, _ := serve(t, func(s grpc.ServiceRegistrar) { toolrunnerv1.RegisterToolRunnerServiceServer(s, r) })
	return conn
}

func (r *toolRunner) ReadProject(
	_ context.Context, req *toolrunnerv1.ReadProjectRequest,
) (*toolrunnerv1.ReadProjectResponse, error) {
	r.mu.Lock()
	r.calls = append(r.calls, "read")
	away, slow := r.away, r.slow
	r.slow = nil
	r.mu.Unlock()
	if away {
		return nil, fault.New(fault.Unavailable, "The workspace is away.")
	}
	if slow != nil {
		slow <- struct{}{}
		<-slow
	}
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

// ListTools returns a read-only tool that root agents have by default, and one that they must be given.
func (r *toolRunner) ListTools(
	context.Context, *toolrunnerv1.ListToolsRequest,
) (*toolrunnerv1.ListToolsResponse, error) {
	return &toolrunnerv1.ListToolsResponse{Tools: []*toolrunnerv1.Tool{
		{Name: "file.read", Category: toolrunnerv1.Category_CATEGORY_READ, DefaultRoot: true},
		{Name: "shell.bash", Category: toolrunnerv1.Category_CATEGORY_WRITE},
	}}, nil
}

// holdNext makes the next reading of a project wait; see slow.
func (r *toolRunner) holdNext() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = make(chan struct{})
	return r.slow
}

// leave makes the workspace unavailable, or available again.
func (r *toolRunner) leave(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = yes
}

func (r *toolRunner) EndSession(
	_ context.Context, req *toolrunnerv1.EndSessionRequest,
) (*toolrunnerv1.EndSessionResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, fault.New(fault.Unavailable, "The workspace is away.")
	}
	r.calls = append(r.calls, "ended "+req.GetSessionId())
	r.ended = append(r.ended, req.GetSessionId())
	payload, err := structpb.NewStruct(map[string]any{"process_id": "p", "run_id": "r"})
	return &toolrunnerv1.EndSessionResponse{
		Audit: []*commonv1.AuditRecord{{EventType: "shell.executed", AgentPath: "primary", Payload: payload}},
	}, err
}

// SignalProcess records the signal and its target.
func (r *toolRunner) SignalProcess(
	_ context.Context, req *toolrunnerv1.SignalProcessRequest,
) (*toolrunnerv1.SignalProcessResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, req.GetSignal()+" "+req.GetSessionId()+" "+req.GetProcessId())
	return &toolrunnerv1.SignalProcessResponse{}, nil
}

// ListProcesses lists the running processes.
func (r *toolRunner) ListProcesses(
	_ context.Context, req *toolrunnerv1.ListProcessesRequest,
) (*toolrunnerv1.ListProcessesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, fault.New(fault.Unavailable, "The workspace is away.")
	}
	r.calls = append(r.calls, "listed "+req.GetSessionId())
	cage := "c"
	resp := &toolrunnerv1.ListProcessesResponse{}
	for _, s := range r.runs {
		if req.GetSessionId() == "" || req.GetSessionId() == s {
			resp.Processes = append(resp.Processes, &commonv1.RunningProcess{
				Id: "p", SessionId: s, ProjectId: "music", RunId: "r", AgentPath: "primary", CageId: &cage, Pid: 7,
				Command: "sleep 1", StartedAt: 1,
				MemoryBytes: 2, CpuMs: 3, Background: true,
			})
			resp.Cages = append(resp.Cages, &commonv1.RunningCage{
				Id: cage, SessionId: s, ProjectId: "music", RunId: "r", AgentPath: "primary", Tier: "userns",
				BestEffort: []string{"b"}, StartedAt: 1,
				MemoryBytes: 2, CpuMs: 3, Processes: 4,
			})
		}
	}
	return resp, nil
}

// fakeHarness plays runs with functions of the test.
type fakeHarness struct {
	harnessv1.UnimplementedHarnessServiceServer
	t     testing.TB
	mu    sync.Mutex // guards the fields below
	plays []func(*play)
	// compacts answers requests between runs; nil returns an estimate.
	compacts func(compactCall) (*harnessv1.CompactResponse, error)
	began    chan *play
	// kept are the conversations of the last runs, by session.
	kept map[string][]*harnessv1.Message

	// away refuses new runs; refused counts the refusals.
	away    atomic.Bool
	refused atomic.Int64
}

func newHarness(t testing.TB) *fakeHarness {
	return &fakeHarness{t: t, began: make(chan *play, 256), kept: map[string][]*harnessv1.Message{}}
}

// beginning returns the longest beginning of the session's kept conversation that is offered, with its hash.
func (h *fakeHarness) beginning(start *harnessv1.RunStart) (kept []*harnessv1.Message, hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	chain := contract.Chain{}
	for i, m := range h.kept[start.GetSessionId()] {
		from := contract.Source{MessageID: m.GetMessageId(), Step: int(m.GetStep())}
		chain = chain.With(llmproto.FromMessage(m), from, m.GetAlwaysKeep())
		if slices.Contains(start.GetBeginnings(), chain.String()) {
			kept, hash = h.kept[start.GetSessionId()][:i+1], chain.String()
		}
	}
	return kept, hash
}

func (h *fakeHarness) conn(t testing.TB) grpc.ClientConnInterface {
	conn, _ := serve(t, func(s grpc.ServiceRegistrar) { harnessv1.RegisterHarnessServiceServer(s, h) })
	return way{conn, h}
}

// way is the session-managers' connection to the harness.
type way struct {
	grpc.ClientConnInterface
	h *fakeHarness
}

// NewStream implements [grpc.ClientConnInterface].
func (w way) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if w.h.away.Load() {
		w.h.refused.Add(1)
		return nil, fault.New(fault.Unavailable, "The harness is away.")
	}
	return w.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// expect adds functions for the next runs. Further runs use sayHello.
func (h *fakeHarness) expect(plays ...func(*play)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plays = append(h.plays, plays...)
}

// Run receives the start and the history, and then plays.
func (h *fakeHarness) Run(stream grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]) error {
	p := &play{
		stream: stream, stored: make(chan *harnessv1.StepStored, 64), cancelled: make(chan string, 1),
		granted: make(chan *harnessv1.CallGranted, 8),
		decided: make(chan *harnessv1.ApprovalDecision, 8), cancelledOne: make(chan string, 1),
		halted: make(chan struct{}, 1),
	}
	for p.begun = false; !p.begun; {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		switch r := req.GetRequest().(type) {
		case *harnessv1.RunRequest_Start:
			p.start = r.Start
			if len(r.Start.GetBeginnings()) == 0 {
				continue
			}
			kept, hash := h.beginning(r.Start)
			p.history = slices.Clip(kept)
			if err := stream.Send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_HistoryWanted{
				HistoryWanted: &harnessv1.HistoryWanted{After: hash},
			}}); err != nil {
				return err
			}
		case *harnessv1.RunRequest_History:
			p.history = append(p.history, r.History.GetMessages()...)
		case *harnessv1.RunRequest_Continued:
			p.continued = append(p.continued, r.Continued)
		case *harnessv1.RunRequest_Begin:
			p.begun = !r.Begin.GetHold()
		case *harnessv1.RunRequest_Go:
			p.begun = true
		}
	}
	h.mu.Lock()
	h.kept[p.start.GetSessionId()] = slices.Clip(p.history)
	act := sayHello
	if len(h.plays) > 0 {
		act, h.plays = h.plays[0], h.plays[1:]
	}
	h.mu.Unlock()
	h.began <- p
	go p.listen() // until the stream ends
	return p.act(act)
}

// next waits for the next run that begins and returns it.
func (h *fakeHarness) next() *play {
	h.t.Helper()
	select {
	case p := <-h.began:
		return p
	case <-time.After(deadline):
		h.t.Fatal("no run begins")
		return nil
	}
}

// play is a run in the fake harness.
type play struct {
	stream    grpc.BidiStreamingServer[harnessv1.RunRequest, harnessv1.RunEvent]
	start     *harnessv1.RunStart
	history   []*harnessv1.Message
	begun     bool
	stored    chan *harnessv1.StepStored
	cancelled chan string
	decided   chan *harnessv1.ApprovalDecision
	granted   chan *harnessv1.CallGranted
	halted    chan struct{} // receives a value when the run is to be handed over
	continued []*harnessv1.Continued
	// cancelledOne receives the invocations to stop; invocation is that of an agent below the root, or "".
	cancelledOne chan string
	invocation   string
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
		if d := req.GetDecision(); d != nil {
			p.decided <- d
		}
		if g := req.GetGranted(); g != nil {
			p.granted <- g
		}
		if req.GetHalt() != nil {
			p.halted <- struct{}{}
		}
		if c := req.GetCancelInvocation(); c != nil {
			p.cancelledOne <- c.GetInvocationId()
		}
		if c := req.GetCancel(); c != nil {
			p.cancelled <- c.GetReason()
		}
	}
}

// errGone ends a play whose caller is gone.
var errGone = errors.New("gone")

// act plays, and ends wherever the play is when the caller goes away.
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

// errCrash is the stream's error if a harness dies.
var errCrash = io.ErrUnexpectedEOF

// errors of the harness instead of an end
var (
	errRefused error = fault.New(fault.PayloadTooLarge, "The conversation is too large.")
	errAway    error = fault.New(fault.Unavailable, "The harness stops.")
)

// handsOver waits until the run is to be handed over, and then does so.
func (p *play) handsOver() {
	select {
	case <-p.halted:
	case <-p.stream.Context().Done():
		panic(errGone)
	}
	p.handedOver()
}

// handedOver reports the end of a run that is handed over.
func (p *play) handedOver() {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_Finished{Finished: &harnessv1.RunFinished{
		Outcome: harnessv1.Outcome_OUTCOME_HANDED_OVER,
	}}})
}

func (p *play) crash() { panic(errCrash) }

func (p *play) send(ev *harnessv1.RunEvent) {
	ev.InvocationId = p.invocation
	if p.stream.Send(ev) != nil {
		panic(errGone)
	}
}

// awaitStored waits until a half of a step is stored.
func (p *play) awaitStored(step int32, part harnessv1.StepPart) *harnessv1.StepStored {
	select {
	case s := <-p.stored:
		if s.GetStep() != step || s.GetPart() != part || s.GetInvocationId() != p.invocation {
			panic(fmt.Sprintf("stored %v", s))
		}
		return s
	case <-p.stream.Context().Done():
		panic(errGone)
	}
}

// hang waits for a cancellation and returns its reason; it ends the play if the caller goes away.
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
	p.send(&harnessv1.RunEvent{
		Event: &harnessv1.RunEvent_Delta{Delta: &harnessv1.Delta{Kind: harnessv1.DeltaKind_DELTA_KIND_TEXT, Text: text}},
	})
}

func text(s string) *harnessv1.Block {
	return &harnessv1.Block{Block: &harnessv1.Block_Text{Text: &harnessv1.Text{Text: s}}}
}

func call(id, name, input string) *harnessv1.Block {
	return &harnessv1.Block{
		Block: &harnessv1.Block_ToolCall{ToolCall: &harnessv1.ToolCall{Id: id, Name: name, Input: input}},
	}
}

// turn reports a turn; with wait it waits until the turn is stored.
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
		Stats: &harnessv1.Stats{
			TtftMs: &ttft, DurationMs: 100, Tps: 50, Cost: &harnessv1.Cost{Input: 0.5, Output: 0.25, Total: 0.75},
		},
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
		Step: step, Input: input, Audit: auditRecords("tool.called"),
		Result: &harnessv1.ToolResult{ToolCallId: id, Name: name, Content: output, DurationMs: 3},
	}}})
}

// wrote reports a call of file.write.
func (p *play) wrote(step int32, id, path string) {
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolCall{ToolCall: &harnessv1.ToolCallStarted{
		Step: step, Call: &harnessv1.ToolCall{Id: id, Name: "file.write", Input: "{}"},
	}}})
	p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_ToolResult{ToolResult: &harnessv1.ToolCallFinished{
		Step: step, Result: &harnessv1.ToolResult{ToolCallId: id, Name: "file.write", Content: "{}"}, Input: "{}",
		Audit: []*commonv1.AuditRecord{{
			EventType: "file.written", Ts: 1700000000001, AgentPath: "primary",
			Payload: &structpb.Struct{Fields: map[string]*structpb.Value{"path": structpb.NewStringValue(path)}},
		}},
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
		Stats: &harnessv1.Stats{
			TtftMs: &ttft, DurationMs: 100 * float64(steps), Tps: 50,
			Cost: &harnessv1.Cost{Total: 0.75 * float64(steps)},
		},
	})
}

func sayHello(p *play) {
	p.model()
	p.delta("Hel")
	p.delta("lo")
	p.turn(1, false, text("Hello"))
	p.complete(1)
}

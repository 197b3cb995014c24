package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/fakellm"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// toolRunner is a tool runner with functions as its tools. It stores the requests it gets.
type toolRunner struct {
	toolrunnerv1.UnimplementedToolRunnerServiceServer
	run map[string]func(ctx context.Context, input string) (string, error)
	// asks makes each call need approval before it runs.
	asks bool

	mu   sync.Mutex // guards seen
	seen []*toolrunnerv1.RunToolRequest
}

func (r *toolRunner) ListTools(
	context.Context, *toolrunnerv1.ListToolsRequest,
) (*toolrunnerv1.ListToolsResponse, error) {
	schema, err := structpb.NewStruct(map[string]any{
		"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}},
	})
	return &toolrunnerv1.ListToolsResponse{Tools: []*toolrunnerv1.Tool{
		{Name: "file.read", Description: "Reads a file.", InputSchema: schema, Parallel: true, DefaultRoot: true},
		{Name: "file.write", Description: "Writes a file.", InputSchema: schema, Aliases: []*toolrunnerv1.ToolAlias{
			{Name: "write_file", Description: "Writes a file, too.", InputSchema: schema},
		}},
	}}, err
}

func (r *toolRunner) RunTool(
	req *toolrunnerv1.RunToolRequest, stream grpc.ServerStreamingServer[toolrunnerv1.RunToolEvent],
) error {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	run := r.run[req.GetTool()]
	r.mu.Unlock()
	if r.asks && req.GetGrant().GetFingerprint() != "f" {
		return stream.Send(&toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Approval{
			Approval: &toolrunnerv1.ApprovalNeeded{
				Subject: approvalSubject, Fingerprint: "f", Audit: []*commonv1.AuditRecord{
					{EventType: "tool.approval.requested", Ts: 5},
				},
			},
		}})
	}
	out := &toolrunnerv1.RunToolEvent{
		Event: &toolrunnerv1.RunToolEvent_Output{Output: &toolrunnerv1.ToolOutput{Stream: "stdout", Text: "..."}},
	}
	if err := stream.Send(out); err != nil {
		return err
	}
	content, err := run(stream.Context(), req.GetInput())
	if err != nil {
		return err
	}
	return stream.Send(&toolrunnerv1.RunToolEvent{Event: &toolrunnerv1.RunToolEvent_Result{
		Result: &toolrunnerv1.ToolResult{
			Content: content, Tool: "file.read", DurationMs: 3, Audit: []*commonv1.AuditRecord{{EventType: "tool.called", Ts: 5}},
		},
	}})
}

// Register and Run make the fake a service of the host.
func (r *toolRunner) Register(s grpc.ServiceRegistrar) {
	toolrunnerv1.RegisterToolRunnerServiceServer(s, r)
}

func (r *toolRunner) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// rig is a harness with a fake tool runner and a fake provider, over gRPC and HTTP as in production.
type rig struct {
	t      *testing.T
	tools  *toolRunner
	model  *fakellm.Server
	host   *testkit.Running
	client harnessv1.HarnessServiceClient
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, model: fakellm.Start(t),
		tools: &toolRunner{run: map[string]func(context.Context, string) (string, error){
			"file.read":  func(_ context.Context, in string) (string, error) { return "read " + in, nil },
			"file.write": func(_ context.Context, in string) (string, error) { return "wrote " + in, nil },
		}},
	}
	h, err := host.New(testkit.Options(t), Module,
		host.Module{Name: "tool-runner", New: func(*host.Env) (host.Service, error) { return r.tools, nil }})
	if err != nil {
		t.Fatal(err)
	}
	r.host = testkit.Start(t, h)
	t.Cleanup(func() { testkit.Stop(t, r.host) })
	r.client = harnessv1.NewHarnessServiceClient(r.host.Dial("harness"))
	return r
}

// project returns a project of one agent with both tools, as session-manager compiles it.
func project() *harnessv1.CompiledProject {
	return (&compile.Project{Slug: "demo", Version: 1, Root: &compile.Agent{
		Key: "primary", Path: "primary", Model: "smart", PromptPath: "p.md", Tools: []string{"file.read", "file.write"},
		Writes:             true,
		IncludeToolResults: true,
	}}).Proto()
}

// start returns a start for the demo project and a driver.
func (r *rig) start(driver string) *harnessv1.RunStart {
	r.t.Helper()
	target := r.model.Target(driver)
	return &harnessv1.RunStart{
		RunId: "run1", SessionId: "session1", MessageId: "message1", ProjectId: "demo", OperatorId: "me",
		RequestId: "request1",
		Compiled:  project(), Prompts: map[string]string{"p.md": "You are careful."}, ProjectRoot: "/demo",
		Routes: map[string]*harnessv1.Route{"smart": {Alias: "smart", Targets: []*harnessv1.Target{{
			Provider: target.Provider, Model: target.Model, Driver: driver, ApiKey: target.APIKey, BaseUrl: target.BaseURL,
		}}}},
	}
}

func user(text string) *harnessv1.Message {
	return &harnessv1.Message{
		Role: harnessv1.Role_ROLE_USER, Blocks: []*harnessv1.Block{
			{Block: &harnessv1.Block_Text{Text: &harnessv1.Text{Text: text}}},
		},
	}
}

// watched is a run from its caller's side.
type watched struct {
	stream harnessv1.HarnessService_RunClient
	events []*harnessv1.RunEvent
}

// begin opens a run up to its begin.
func (r *rig) begin(ctx context.Context, start *harnessv1.RunStart) *watched {
	r.t.Helper()
	return r.open(ctx, start, &harnessv1.RunBegin{})
}

func (r *rig) open(ctx context.Context, start *harnessv1.RunStart, begin *harnessv1.RunBegin) *watched {
	r.t.Helper()
	stream, err := r.client.Run(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	w := &watched{stream: stream}
	for _, req := range []*harnessv1.RunRequest{
		{Request: &harnessv1.RunRequest_Start{Start: start}},
		{Request: &harnessv1.RunRequest_History{History: &harnessv1.History{Messages: []*harnessv1.Message{user("Do it.")}}}},
		{Request: &harnessv1.RunRequest_Begin{Begin: begin}},
	} {
		if err := stream.Send(req); err != nil {
			r.t.Fatal(err)
		}
	}
	return w
}

var goRequest = &harnessv1.RunRequest{Request: &harnessv1.RunRequest_Go{Go: &harnessv1.RunGo{}}}

func stored(step int32, part harnessv1.StepPart) *harnessv1.RunRequest {
	return &harnessv1.RunRequest{
		Request: &harnessv1.RunRequest_Stored{Stored: &harnessv1.StepStored{Step: step, Part: part}},
	}
}

// granted returns the grant of a wanted model call.
func granted(ev *harnessv1.RunEvent) *harnessv1.RunRequest {
	return &harnessv1.RunRequest{Request: &harnessv1.RunRequest_Granted{Granted: &harnessv1.CallGranted{
		InvocationId: ev.GetInvocationId(), Call: ev.GetCallWanted().GetCall(),
	}}}
}

var cancelRequest = &harnessv1.RunRequest{
	Request: &harnessv1.RunRequest_Cancel{Cancel: &harnessv1.RunCancel{Reason: "enough"}},
}

// next receives an event, and answers it if the event needs an answer.
func (w *watched) next() (*harnessv1.RunEvent, error) {
	ev, err := w.stream.Recv()
	if err != nil {
		return nil, err
	}
	w.events = append(w.events, ev)
	var answer *harnessv1.RunRequest
	switch {
	case ev.GetTurn() != nil:
		answer = stored(ev.GetTurn().GetStep(), harnessv1.StepPart_STEP_PART_TURN)
	case ev.GetStepDone() != nil:
		answer = stored(ev.GetStepDone().GetStep(), harnessv1.StepPart_STEP_PART_RESULTS)
	}
	if answer != nil {
		answer.GetStored().InvocationId = ev.GetInvocationId()
	} else if ev.GetCallWanted() != nil {
		answer = granted(ev)
	}
	if answer != nil {
		err = w.stream.Send(answer)
	}
	if errors.Is(err, io.EOF) {
		err = nil // The run has ended; its last events are still unread.
	}
	return ev, err
}

// until reads events up to the first that matches found.
func (w *watched) until(t *testing.T, found func(*harnessv1.RunEvent) bool) *harnessv1.RunEvent {
	t.Helper()
	for {
		ev, err := w.next()
		if err != nil {
			t.Fatalf("the run ended: %v", err)
		}
		if found(ev) {
			return ev
		}
	}
}

// finish reads the end of the run, which must also end the stream.
func (w *watched) finish(t *testing.T) *harnessv1.RunFinished {
	t.Helper()
	fin := w.until(t, func(ev *harnessv1.RunEvent) bool { return ev.GetFinished() != nil }).GetFinished()
	if _, err := w.next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end came %v", err)
	}
	return fin
}

func (w *watched) story() string {
	var out []string
	for _, ev := range w.events {
		switch {
		case ev.GetDelta() != nil:
			out = append(out, "delta")
		case ev.GetAudit() != nil, ev.GetAuditHead() != nil, ev.GetCallWanted() != nil, ev.GetCallSettled() != nil:
		default:
			name := strings.TrimPrefix(fmt.Sprintf("%T", ev.GetEvent()), "*harnessv1.RunEvent_")
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}
